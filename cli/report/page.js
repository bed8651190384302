// Draws the report from the JSON in #data with Chart.js. Text from the database only ever becomes
// text nodes. A workload's plots are drawn when its section is first opened.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const style = () => getComputedStyle(document.documentElement);
  const colour = name => style().getPropertyValue(name).trim();
  const palette = { own: '#2f81f7', unfused: '#d4760a', library: '#8957e5', line: '#2da44e' };
  const element = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const us = value => value > 0 ? value.toFixed(2) : '';
  const times = (of, by) => of > 0 && by > 0 ? (of / by).toFixed(2) : '';
  const charts = [];

  document.getElementById('source').textContent =
    `${data.database}, ${data.workloads.length} workloads, written ${data.written} by Tenon ${data.tenon}`;
  const body = document.querySelector('#summary tbody');
  for (const w of data.workloads) {
    const row = element('tr');
    for (const [text, number] of [[w.name], [w.device], [w.launch], [us(w.best_us), true],
      [us(w.spread_us), true], [times(w.unfused_us, w.best_us), true], [w.label]])
      row.append(element('td', text, number ? 'number' : ''));
    body.append(row);
  }

  const axis = (title, type) => ({
    type, title: { display: true, text: title, color: colour('--soft') },
    ticks: { color: colour('--soft') }, grid: { color: colour('--line') } });
  const add = (grid, kind, title, config) => {
    const plot = element('div', undefined, 'plot');
    plot.append(element('h3', title));
    const frame = element('div', undefined, 'frame');
    const canvas = element('canvas');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', title);
    frame.append(canvas);
    plot.append(frame);
    grid.append(plot);
    config.options = Object.assign({ animation: false, responsive: true, maintainAspectRatio: false },
      config.options);
    config.options.plugins = Object.assign(
      { legend: { labels: { color: colour('--text') } } }, config.options.plugins);
    const chart = new Chart(canvas, config);
    charts.push(chart);
    // What was drawn, for tests and readers of the page's structure.
    canvas.dataset.plot = kind;
    canvas.dataset.points = chart.data.datasets.reduce((sum, set) => sum + set.data.length, 0);
  };

  const roofline = (grid, w) => {
    const peak = w.peak_tflops * 1e3, ridge = peak / (w.memory_tb_per_s * 1e3);
    const low = Math.min(ridge, w.intensity) / 8, high = Math.max(ridge, w.intensity) * 8;
    const roof = [[low, low * w.memory_tb_per_s * 1e3], [ridge, peak], [high, peak]];
    const at = time => time > 0 ? [{ x: w.intensity, y: w.flops / time / 1e3 }] : [];
    add(grid, 'roofline', 'Roofline: throughput against arithmetic intensity', {
      type: 'scatter',
      data: { datasets: [
        { label: 'roof', showLine: true, pointRadius: 0, borderColor: palette.line, data: roof.map(([x, y]) => ({ x, y })) },
        { label: 'best', data: at(w.best_us), backgroundColor: palette.own, pointRadius: 6 },
        { label: 'unfused', data: at(w.unfused_us), backgroundColor: palette.unfused, pointRadius: 6 },
        { label: 'with the library', data: at(w.library_us), backgroundColor: palette.library, pointRadius: 5 }] },
      options: { scales: { x: axis('FLOP per byte', 'logarithmic'), y: axis('GFLOP/s', 'logarithmic') } } });
  };
  const distribution = (grid, w) => {
    const least = w.times_us[0] || 1, most = w.times_us[w.times_us.length - 1] || 1;
    const bins = Math.max(1, Math.min(30, Math.ceil(Math.sqrt(w.times_us.length))));
    const ratio = Math.pow(most / least, 1 / bins) || 1, counts = new Array(bins).fill(0);
    for (const t of w.times_us)
      counts[Math.min(bins - 1, Math.max(0, ratio > 1 ? Math.floor(Math.log(t / least) / Math.log(ratio)) : 0))]++;
    add(grid, 'distribution', `Times of ${w.times_us.length} candidates`, {
      type: 'bar',
      data: { labels: counts.map((_, i) => (least * Math.pow(ratio, i)).toPrecision(3)),
        datasets: [{ label: 'candidates', data: counts, backgroundColor: palette.own }] },
      options: { scales: { x: axis('from … µs', 'category'), y: axis('candidates', 'linear') } } });
  };
  const speedup = (grid, w) => {
    const bars = [['unfused form', w.unfused_us, palette.unfused],
      ['best with the vendor’s library', w.library_us, palette.library],
      ['best of its own kernels', w.own_us, palette.own]].filter(([, time]) => time > 0);
    add(grid, 'speedup', 'Time beside the unfused form and the vendor’s library', {
      type: 'bar',
      data: { labels: bars.map(([name, time]) => [name, w.unfused_us > 0 ? `${times(w.unfused_us, time)}×` : '']),
        datasets: [{ label: 'µs', data: bars.map(([, time]) => time), backgroundColor: bars.map(([, , c]) => c) }] },
      options: { indexAxis: 'y', plugins: { legend: { display: false } },
        scales: { x: axis('µs', 'linear'), y: axis('', 'category') } } });
  };
  const funnel = (grid, w) => {
    const steps = ['enumerated', 'distinct', 'verified', 'lowerable', 'compiled', 'measured']
      .filter(step => typeof w.counters[step] === 'number');
    add(grid, 'funnel', 'Search funnel of the newest session', {
      type: 'bar',
      data: { labels: steps, datasets: [{ label: 'count', data: steps.map(step => w.counters[step]), backgroundColor: palette.line }] },
      options: { indexAxis: 'y', plugins: { legend: { display: false } },
        scales: { x: axis('count', 'logarithmic'), y: axis('', 'category') } } });
  };
  const history = (grid, w) => add(grid, 'history', 'Best time by toolchain', {
    type: 'line',
    data: { labels: w.history.map(p => [p.created.slice(0, 10), p.toolchain]),
      datasets: [{ label: 'µs', data: w.history.map(p => p.best_us), borderColor: palette.own, backgroundColor: palette.own }] },
    options: { plugins: { legend: { display: false } }, scales: { x: axis('', 'category'), y: axis('µs', 'linear') } } });

  const list = document.getElementById('workloads');
  data.workloads.forEach((w, index) => {
    const section = element('details');
    const summary = element('summary');
    summary.append(element('h2', `${w.name} on ${w.device}, ${w.launch} launch`));
    section.append(summary);
    section.append(element('p', w.best
      ? `plan ${w.best}: ${us(w.best_us)} µs, ${w.label}; ${w.schedule}` : 'no plan won yet', 'soft'));
    section.append(element('p', 'candidates: ' + w.statuses.map(([s, n]) => `${n} ${s}`).join(', '), 'soft'));
    const grid = element('div', undefined, 'plots');
    section.append(grid);
    const draw = () => {
      if (grid.childElementCount) return;
      for (const plot of [roofline, distribution, speedup, funnel, history]) plot(grid, w);
    };
    section.addEventListener('toggle', draw);
    list.append(section);
    if (index < 3) { section.open = true; draw(); }
  });
  document.documentElement.dataset.drawn = charts.length;
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => location.reload());
})();
