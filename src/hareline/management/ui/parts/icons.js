// Paths of 20 by 20 line pictures, by the segment of the page.
export const ICONS = {
  overview: "M3 17V9M8 17V4M13 17v-6M18 17V7",
  queues: "M3 5h14M3 10h14M3 15h9",
  exchanges: "M3 10h5M8 10l5-6h4M8 10l5 6h4M8 10h9",
  streams: "M2 7c3-3 5 3 8 0s5 3 8 0M2 13c3-3 5 3 8 0s5 3 8 0",
  "dead-letters": "M3 5h14v10H3zM7 8l6 5M13 8l-6 5",
  connections: "M7 7l-3 3a3 3 0 004 4l3-3M13 13l3-3a3 3 0 00-4-4L9 9",
  channels: "M3 6h14M3 14h14M7 6v8M13 6v8",
  consumers: "M10 10a3 3 0 100-6 3 3 0 000 6zM4 17c0-3 3-5 6-5s6 2 6 5",
  "route-tester": "M4 16c6 0 3-11 12-11M12 2l4 3-4 3",
  "near-limits": "M3 15a7 7 0 0114 0M10 15l4-6",
  changes: "M10 5v5l3 3M17 10a7 7 0 11-2-5M17 3v3h-3",
  docs: "M4 3h5a2 2 0 012 2v12a2 2 0 00-2-1H4zM16 3h-3a2 2 0 00-2 2v12a2 2 0 012-1h3z",
  policies: "M5 2h7l4 4v12H5zM8 10h5M8 14h5",
  vhosts: "M3 3h14v5H3zM3 12h14v5H3zM6 5.500h.100M6 14.500h.100",
  users: "M7 9a3 3 0 100-6 3 3 0 000 6zM1.500 17c0-3 2.500-5 5.500-5s5.500 2 5.500 5M13 4a3 3 0 010 5M15 12c2 .500 3.500 2.500 3.500 5",
  definitions: "M10 3v9M6 9l4 4 4-4M3 17h14",
};
