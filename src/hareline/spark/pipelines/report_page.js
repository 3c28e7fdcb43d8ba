// Sorts a table by the column whose heading is pressed; again, the other way round.
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => {
    const first = heading.classList.contains("name") ? "ascending" : "descending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = heading.getAttribute("aria-sort") === first ? other : first;
    for (const each of headings) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", order);
    const body = table.tBodies[0];
    const sign = order === "ascending" ? 1 : -1;
    const valueOf = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const compare = (one, two) => {
      const [a, b] = [valueOf(one), valueOf(two)];
      if (a === "" || b === "") return (a === "") - (b === "");
      const asNumbers = Number(a) - Number(b);
      return sign * (Number.isNaN(asNumbers) ? a.localeCompare(b) : asNumbers);
    };
    body.append(...[...body.rows].sort(compare));
  }));
}
