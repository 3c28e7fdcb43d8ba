{
  // Draws the lines of a chart by uPlot; the legend tells the figures under the pointer.
  const figure = (number, steps) => {
    const [, size, name] = steps.findLast(([least]) => number >= least * 0.9995) ?? steps[0];
    const value = number / size;
    return Number(value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3)) + name;
  };
  const DAY = { day: "2-digit", month: "short", timeZone: "UTC" };
  const timeOf = (second, step) => {
    const moment = new Date(second * 1000);
    if (step >= 86_400) return moment.toLocaleDateString("en-GB", DAY);
    return moment.toISOString().slice(11, step >= 60 ? 16 : 19);
  };
  const draw = (chart) => {
    const { times, bin, lines, steps, isLog } = JSON.parse(chart.dataset.chart);
    const box = chart.querySelector("div");
    const items = [...chart.querySelectorAll("li")];
    const colours = getComputedStyle(document.documentElement);
    const grid = { stroke: colours.getPropertyValue("--line"), width: 1 };
    const axis = { stroke: colours.getPropertyValue("--soft"), grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const tell = ({ cursor: { idx } }) => {
      items.forEach((item, line) => { item.querySelector("b").textContent = figure(lines[line][idx] ?? NaN, steps).replace(/^NaN.*/, ""); });
      box.title = idx == null ? "" : `${new Date(times[idx] * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
    };
    chart.plot?.destroy();
    chart.plot = new uPlot({
      width: box.clientWidth, height: 230, padding: [10, 28, 0, 0], tzDate: (second) => uPlot.tzDate(new Date(second * 1000), "UTC"),
      legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } }, hooks: { setCursor: [tell] },
      scales: {
        x: { range: [times[0], times.at(-1) + bin] },
        y: isLog ? { distr: 3 } : { range: (_plot, _low, high) => [0, high > 0 ? high * 1.05 : 1] },
      },
      axes: [
        { ...axis, size: 28, space: 64, values: (_plot, ticks, _axis, _space, step) => ticks.map((tick) => timeOf(tick, step)) },
        { ...axis, size: 64, space: 40, values: (_plot, ticks) => ticks.map((tick) => (tick == null ? "" : figure(tick, steps))) },
      ],
      series: [{}, ...items.map((item) => ({ stroke: getComputedStyle(item).color, width: 2 }))],
    }, [times.map((start) => start + bin / 2), ...lines.map((values) => values.map((value) => (value == null || !isLog ? value : Math.max(value, 1))))], box);
  };
  const charts = document.querySelectorAll(".chart");
  const drawAll = () => charts.forEach(draw);
  drawAll();
  addEventListener("resize", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

  // Sorts a table by the column whose heading is pressed; again, the other way round.
  for (const table of document.querySelectorAll("section table")) {
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
}
