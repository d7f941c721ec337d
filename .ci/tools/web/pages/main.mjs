// Opens the viewer's page, the live demo, a worker and the bench in Chromium, and checks them.
//
//   node main.mjs TOOLS CHROMIUM WORK PICTURES
//
// TOOLS has playwright-core in its node_modules. WORK holds the pages in `viewer`, `demo` and
// `bench`, the captures `run.vor` and `damaged.vor`, `text.vor`, which is not a capture, and the
// output of the command for the first in `info.json` and `stats.json`. It prints a line per check;
// the first failure ends the program with status 1.
import addresses from './addresses.mjs';
import bench from './bench.mjs';
import captures from './captures.mjs';
import demo from './demo.mjs';
import exports from './exports.mjs';
import moves from './moves.mjs';
import { stop } from './page.mjs';
import worker from './worker.mjs';

const checks = {
  ...captures,
  ...addresses,
  ...moves,
  ...exports,
  ...demo,
  ...worker,
  ...bench,
};

let status = 0;
try {
  for (const [name, body] of Object.entries(checks)) {
    console.log(name);
    await body();
  }
} catch (error) {
  console.error(`FAILED: ${error.message}`);
  status = 1;
}
await stop();
process.exit(status);
