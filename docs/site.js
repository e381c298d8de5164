// The theme gives each block of code a bar of buttons without a name of its own, and takes the keyboard from code
// that is not on the screen.
new MutationObserver(() => {
  document.querySelectorAll(".md-code__nav").forEach((bar, number) => {
    bar.ariaLabel ??= `Code ${number + 1}`;
  });
  document.querySelectorAll("pre > code:not([tabindex])").forEach((code) => (code.tabIndex = 0));
}).observe(document.body, { childList: true, subtree: true, attributeFilter: ["tabindex"] });
