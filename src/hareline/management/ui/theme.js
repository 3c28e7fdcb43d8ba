// Runs before the page is drawn, so that it never shows the wrong colours first.
(function () {
  try {
    const theme = localStorage.getItem("hareline.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // storage is switched off: the system's colours apply
  }
})();
