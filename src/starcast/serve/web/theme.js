// Light or dark, decided before the first paint: what was chosen here, else what the system prefers.
(() => {
  const KEY = "starcast/theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };
  const apply = () => {
    const chosen = kept();
    root.dataset.theme = chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) button.setAttribute("aria-pressed", String(root.dataset.theme === "dark"));
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      const next = root.dataset.theme === "dark" ? "light" : "dark";
      try {
        localStorage.setItem(KEY, next);
      } catch {
        root.dataset.theme = next; // storage is barred: it lasts for this visit
        return;
      }
      apply();
    });
  });
})();
