// Dark or light: as the system says, until the switch chooses.

import { byId } from "./dom.js";

const KEY = "edgedec.theme";
const NEXT = { system: "light", light: "dark", dark: "system" };

export function prepareTheme() {
  const button = byId("theme");
  const label = button.querySelector("span");
  const root = document.documentElement;
  const show = () => (label.textContent = `Theme: ${root.dataset.theme ?? "system"}`);
  button.addEventListener("click", () => {
    const theme = NEXT[root.dataset.theme ?? "system"];
    if (theme === "system") {
      delete root.dataset.theme;
      localStorage.removeItem(KEY);
    } else {
      root.dataset.theme = theme;
      localStorage.setItem(KEY, theme);
    }
    show();
  });
  show();
}
