// Frames that scroll can be reached with the keyboard, and say what they are to a screen reader.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const frames = document.querySelectorAll(".table-wrapper, .highlight pre, article p:has(> img)");
  const mark = () => {
    for (const frame of frames) {
      if (frame.scrollWidth <= frame.clientWidth) {
        frame.removeAttribute("tabindex");
        continue;
      }
      frame.tabIndex = 0;
      frame.setAttribute("role", "group");
      frame.setAttribute("aria-label", frame.matches("pre") ? "Code" : frame.matches("p") ? "Picture" : "Table");
    }
  };
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  mark();
  addEventListener("load", mark); // pictures have a width only then
  addEventListener("resize", mark);
});
