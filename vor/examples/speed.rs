#![allow(unsafe_code, missing_docs)]
use std::hint::black_box;
use std::time::Instant;
#[inline(never)]
fn empty() {
    vor::profile_scope!("e");
}
#[inline(never)]
fn two(a: u64, b: u64) {
    vor::profile_scope!("two", a = a, b = b);
}
fn floor_() {
    unsafe {
        black_box(core::arch::x86_64::_rdtsc());
        black_box(core::arch::x86_64::_rdtsc());
    }
}
fn t(name: &str, mut f: impl FnMut()) {
    let mut v = vec![];
    for _ in 0..400 {
        let s = Instant::now();
        for _ in 0..2000 {
            f();
        }
        v.push(s.elapsed().as_nanos() as f64 / 2000.);
    }
    v.sort_by(|a, b| a.total_cmp(b));
    println!("{name}: median {:.2} p10 {:.2}", v[200], v[40]);
}
fn nest(n: u32) {
    vor::profile_scope!("n");
    if n > 0 {
        nest(n - 1)
    }
}
fn main() {
    t("off", empty);
    t("loop", || {
        black_box(0);
    });
    let cap = std::env::args().nth(1);
    let mut c = vor::Config::new();
    if let Some(p) = &cap {
        c = c.capture(p);
    }
    c.enable();
    for _ in 0..2 {
        t("floor", floor_);
        t("empty", empty);
        t("empty-inl", || {
            vor::profile_scope!("e");
        });
        t("two-inl", || {
            vor::profile_scope!("e2", a = 1u64, b = 2u64);
        });
        t("two", || two(1, 2));
        t("nested11", || nest(10));
        {
            let mut p = vor::profile_phase!("a");
            t("phase", || {
                vor::profile_phase!(p, "b");
            });
        }
        t("metric", || vor::record_metric("loss", 1.0));
        static C: vor::Counter = vor::Counter::new("c", "");
        t("counter", || C.add(1));
        t("scope str", || {
            let _s = vor::scope("dyn name");
        });
        t("mark", || vor::frame_mark());
    }
    // flat out 10 s
    let n: u64 = 30_000_000;
    let s = Instant::now();
    for _ in 0..n {
        empty();
    }
    let e = s.elapsed();
    println!("flat: {:.2} ns/span", e.as_nanos() as f64 / n as f64);
    vor::flush();
    let cpu = {
        let mut ts: libc::timespec = unsafe { std::mem::zeroed() };
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut ts) };
        ts.tv_sec as f64 * 1e9 + ts.tv_nsec as f64
    };
    println!(
        "cpu total {:.2} s; hwm {}",
        cpu / 1e9,
        std::fs::read_to_string("/proc/self/status")
            .unwrap()
            .lines()
            .find(|l| l.starts_with("VmHWM"))
            .unwrap()
    );
}
