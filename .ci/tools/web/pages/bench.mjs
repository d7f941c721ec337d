// The page of the bench: the cost of a scope, which is printed, and the content of frames.
import { check, visit } from './page.mjs';

export default {
  async 'the cost of a scope, and the content of frames'() {
    const own = ['frame_ms', 'io_MB', 'io_ms'];
    const others =
      'cpu_pct, page_faults, ctx_switches, threads, disk_read_MB, disk_write_MB ' +
      '(browsers do not report it)';
    for (const [where, address, before, rows] of [
      ['a window', '/bench/', '', [...own, 'memory_mb']],
      [
        'a window of a browser without `performance.memory`',
        '/bench/',
        'delete Performance.prototype.memory;',
        own,
      ],
      ['a worker', '/bench/?worker', '', own],
    ]) {
      await visit(address, { before }, async (page, hidden) => {
        const answer = await (
          await page.waitForFunction(() => window.vorBench, null, { timeout: 120_000 })
        ).jsonValue();
        console.log(`  ${where}`);
        for (const [name, ns, ratio] of answer.costs) {
          const cost = `${ns.toFixed(1).padStart(8)} ns ${ratio.toFixed(2).padStart(6)} ×`;
          console.log(`    ${name.padEnd(24)} ${cost}`);
        }
        check(
          'all scopes are in frames, and none is dropped',
          answer.spans >= 101 * 3 * 25_000 && answer.dropped === 0,
          answer,
        );
        check(
          'rows are those that the browser reports',
          answer.rows.join() === rows.join(),
          answer.rows,
        );
        const memory = rows.includes('memory_mb')
          ? ''
          : 'memory_mb (there is no `performance.memory`, which only windows of Chromium have), ';
        check(
          'one debug line explains the absent rows',
          hidden.join() === `vor: these rows are absent: ${memory}${others}`,
          hidden,
        );
        check(
          "puffin has its own scopes and vor's in one frame",
          answer.puffin.toSorted().join() === 'of puffin,of vor',
          answer.puffin,
        );
      });
    }
  },
};
