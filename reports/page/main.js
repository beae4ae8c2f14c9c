// Puts it all together.

makeFilters();
makeHeatmap();
makeTable();
makeCharts();
applyFilters();
makeDetail();
document.documentElement.dataset.ready = "";
