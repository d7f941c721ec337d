// A worker measures its scopes on its own timeline.
import fs from 'node:fs';
import path from 'node:path';

import { check, visit, work } from './page.mjs';

export default {
  async 'a worker'() {
    const own = path.join(work, 'worker');
    fs.mkdirSync(own);
    fs.writeFileSync(
      path.join(own, 'index.html'),
      '<!doctype html><title>a page with a worker</title><link rel="icon" href="data:,">',
    );
    // The program of the demo, which computes some frames if there is no page.
    fs.writeFileSync(
      path.join(own, 'worker.js'),
      `import start from '../demo/web.js';
       const began = performance.now();
       await start();
       const measures = performance.getEntriesByType('measure');
       postMessage({
         began, ended: performance.now(), window: typeof window,
         measures: measures.map(({ name, startTime, duration, detail }) => (
           { name, startTime, duration, detail })),
       });`,
    );
    await visit('/worker/', {}, async (page) => {
      const { began, ended, window, measures } = await page.evaluate(
        () =>
          new Promise((resolve, reject) => {
            const worker = new Worker('worker.js', { type: 'module' });
            worker.onmessage = (message) => resolve(message.data);
            worker.onerror = (error) => reject(new Error(`the worker: ${error.message}`));
            setTimeout(() => reject(new Error('the worker does not answer')), 30_000);
          }),
      );
      check('it is a worker, without a window', window === 'undefined', window);
      const counts = {};
      for (const { name } of measures) counts[name] = (counts[name] ?? 0) + 1;
      // Twenty frames that simulate once, twice, three times, once and so on, in eight slices each.
      const expected = { work: 20, simulate: 39, spawn: 39, advance: 312 };
      const same =
        Object.keys(counts).length === 4 &&
        Object.entries(expected).every(([name, count]) => counts[name] === count);
      check('every scope is a measure, and nothing else is', same, counts);

      const end = (measure) => measure.startTime + measure.duration;
      // Sums of floating-point milliseconds differ in the last bits.
      const within = (inner, outer) =>
        inner.startTime >= outer.startTime - 1e-6 && end(inner) <= end(outer) + 1e-6;
      const of = (name, frame) =>
        measures.filter((measure) => measure.name === name && measure.detail.frame === frame);
      let total = 0;
      let previous = { startTime: began, duration: 0 };
      for (let frame = 0; frame < 20; frame += 1) {
        const [[work], simulations] = [of('work', frame), of('simulate', frame)];
        const inner = [...of('spawn', frame), ...of('advance', frame)];
        const found = JSON.stringify([work, ...simulations, ...inner]);
        const holds =
          work?.detail.devtools.properties[0].join() === `frame,${frame}` &&
          work.startTime >= end(previous) - 1e-6 &&
          simulations.length === 1 + (frame % 3) &&
          simulations.every((simulate) => within(simulate, work)) &&
          inner.length === 9 * simulations.length &&
          // Measures are in order of time, so each simulation has the next eight slices.
          of('advance', frame).every((advance, i) =>
            within(advance, simulations[Math.floor(i / 8)]),
          ) &&
          of('spawn', frame).every((spawn, i) => within(spawn, simulations[i])) &&
          inner.reduce((sum, { duration }) => sum + duration, 0) <= work.duration + 1e-6;
        if (!holds) throw new Error(`frame ${frame} of the worker: found ${found}`);
        total += work.duration;
        previous = work;
      }
      check('scopes lie in their frames and in those around them', end(previous) <= ended, [
        previous,
        ended,
      ]);
      check('their total is within the run of the worker', total > 0 && total <= ended - began, [
        total,
        began,
        ended,
      ]);
      const left = await page.evaluate(() => performance.getEntriesByType('measure').length);
      check("the page's own timeline has none of them", left === 0, left);
    });
  },
};
