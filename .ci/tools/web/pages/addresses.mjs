// The viewer's page shows the capture that its address names, or says why it cannot.
import { started } from '../browser.mjs';
import { check, origin, picture, until, visit } from './page.mjs';
import { checkRun, state } from './viewer.mjs';

export default {
  async 'addresses'() {
    for (const address of ['../run.vor', `${origin}/run.vor`]) {
      await visit(`/viewer/?url=${encodeURIComponent(address)}`, { colorScheme: 'dark' }, checkRun);
    }
    for (const [address, says] of [
      ['../absent.vor', /^\.\.\/absent\.vor: the server answered 404/],
      ['../text.vor', /^text\.vor: /],
      ['http://127.0.0.1:1/run.vor', /^http:\/\/127\.0\.0\.1:1\/run\.vor: cannot be fetched/],
      ['http://', /^http:\/\/: cannot be fetched/],
    ]) {
      await visit(
        `/viewer/?url=${encodeURIComponent(address)}`,
        { colorScheme: 'light' },
        async (page) => {
          await started(page);
          await until(page, () => window.vorViz.problem !== null);
          const found = await state(page);
          check(
            `${address} cannot be shown, with a reason`,
            says.test(found.problem) && found.frames === 0,
            found.problem,
          );
          if (address === '../absent.vor') {
            await page.waitForTimeout(300);
            await picture(page, 'web_viewer_absent_light');
          }
        },
      );
    }
  },
};
