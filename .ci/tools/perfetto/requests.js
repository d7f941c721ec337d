// The script of `picture` for the trace of the example `requests`: the body of an async function
// with the parameters `app` and `query`.
//
// It shows a query of one request, from its thread to the storage and on to the thread where the
// request continues.

const settle = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const rows = async (sql, columns) => {
  const found = [];
  for (const row = (await app.trace.engine.query(sql)).iter(columns); row.valid(); row.next()) {
    found.push(Object.fromEntries(Object.keys(columns).map((name) => [name, row[name]])));
  }
  return found;
};

const [shown] = await rows(
  query,
  { id: 0, start_ns: 0n, end_ns: 0n },
);

const ui = app.trace;
if (ui.sidebar.visible) ui.sidebar.toggleVisibility();
await app.commands.runCommand('dev.perfetto.ExpandAllGroups');
const named = (name, nodes = ui.workspace.children) =>
  nodes.flatMap((node) => [
    ...(node.name === name ? [node] : []),
    ...named(name, node.children),
  ]);
for (const name of ['open_requests', 'answered', 'frame_ms', 'cpu_pct']) {
  named(name).forEach((node) => node.pin());
}
for (const name of ['System', 'metrics']) named(name).forEach((node) => node.collapse());
const margin = (shown.end_ns - shown.start_ns) / 6n;
ui.timeline.setViewportTime(shown.start_ns - margin, shown.end_ns + margin);
ui.selection.selectSqlEvent('slice', shown.id);
await settle(2000);
await app.commands.runCommand('dev.perfetto.ToggleDrawer');
