// Sets the chosen theme before the first paint. A plain script: modules run only after the page was drawn.
(() => {
  try {
    const theme = localStorage.getItem("edgedec.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is forbidden: the system's theme holds.
  }
})();
