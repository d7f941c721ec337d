//! A model of an account that begins again while another thread reads its start.

use loom::sync::Arc;
use loom::thread;

use super::{Account, Reading};

/// One tick per nanosecond.
const RATE: u64 = 1 << 40;

fn reading(number: u64) -> Reading {
    Reading {
        ticks: 1_000 * number,
        cpu: number,
    }
}

#[test]
fn a_reader_finds_ticks_and_cpu_time_of_one_reading() {
    loom::model(|| {
        let account = Arc::new(Account::new());
        account.begin(reading(1), 0, RATE);
        let owner = {
            let account = Arc::clone(&account);
            thread::spawn(move || account.begin(reading(2), 0, RATE))
        };
        if let Some(begin) = account.begin_reading_from_other_thread() {
            assert!((1..=2).contains(&begin.cpu));
            assert_eq!(begin.ticks, 1_000 * begin.cpu, "of two readings");
        }
        owner.join().unwrap();
    });
}
