// Dark or light: as the system says, until the switch chooses.

import { byId } from "./dom.js";
import { ofBrowser } from "./kept.js";

const NEXT = { system: "light", light: "dark", dark: "system" };

export function prepareTheme() {
  const button = byId("theme");
  const label = button.querySelector("span");
  const root = document.documentElement;
  const show = () => (label.textContent = `Theme: ${root.dataset.theme ?? "system"}`);
  button.addEventListener("click", () => {
    const theme = NEXT[root.dataset.theme ?? "system"];
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    ofBrowser.set("theme", root.dataset.theme);
    show();
  });
  show();
}
