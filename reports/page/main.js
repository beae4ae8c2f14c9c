// Builds the page.

makeFilters();
makeHeatmap();
makeTable();
makeCharts();
applyFilters();
makeDetail();
document.documentElement.dataset.ready = "";
