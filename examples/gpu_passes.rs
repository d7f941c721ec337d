//! Passes of a GPU as tasks beside the scopes of the program, by wgpu and wgpu-profiler.
//!
//! ```text
//! cargo run --release --example gpu_passes --features wgpu
//! ```
//!
//! A frame encodes two compute passes, submits them and waits. `wgpu-profiler` measures the passes
//! with timestamps of the GPU. [`GpuClock`] places them on the clock of the program, and
//! `vor::record_async_span` records them. A program that has no GPU can use Mesa's lavapipe.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use vor_examples::Outcome;
use wgpu_profiler::{GpuProfiler, GpuProfilerSettings, GpuTimerQueryResult};

const FRAMES: u64 = 60;
/// Invocations of each pass, in groups of 64.
const GROUPS: u32 = 64;
/// Steps of each invocation of the passes `shadows` and `lighting`.
const STEPS: [u32; 2] = [200, 2000];

fn main() -> ExitCode {
    vor_examples::run(|out| {
        vor_examples::config("gpu-passes").spans(true).enable();
        let mut gpu = Gpu::new()?;
        for frame in 0..FRAMES {
            gpu.draw(frame)?;
            vor::frame_mark();
        }
        vor::flush();
        writeln!(
            out,
            "{FRAMES} frames on {}; passes are placed to ±{:.1?}.",
            gpu.name,
            gpu.clock.error()
        )?;
        // None if `VOR_RECORD` names a path that cannot be written, which vor has reported.
        if let Some(capture) = vor::capture_path() {
            vor_examples::print_how_to_open(out, &capture)?;
        }
        Ok(())
    })
}

/// The relation of the GPU's clock to that of the program, from causes and effects.
///
/// wgpu cannot read both clocks at once. But work begins after it was submitted, and ends before
/// the program sees its end. So each frame bounds the offset between the clocks from both sides,
/// and all frames together bound it better. The middle is wrong by at most half of what is left.
#[derive(Debug)]
struct GpuClock {
    /// The program's clock counts from here.
    epoch: Instant,
    /// Bounds of the program's time less the GPU's, in seconds.
    low_s: f64,
    high_s: f64,
}

impl GpuClock {
    fn new() -> Self {
        Self {
            epoch: Instant::now(),
            low_s: f64::NEG_INFINITY,
            high_s: f64::INFINITY,
        }
    }

    /// Adds the bounds of work on the GPU from `start_s` to `end_s` that was submitted after
    /// `before` and complete before `after`.
    fn bound(&mut self, (start_s, end_s): (f64, f64), before: Instant, after: Instant) {
        let since_epoch = |time: Instant| (time - self.epoch).as_secs_f64();
        let (low_s, high_s) = (since_epoch(before) - start_s, since_epoch(after) - end_s);
        (self.low_s, self.high_s) = (self.low_s.max(low_s), self.high_s.min(high_s));
        // The clocks drift apart, until the old bounds exclude the new ones.
        if self.low_s > self.high_s {
            (self.low_s, self.high_s) = (low_s, high_s);
        }
    }

    fn offset_s(&self) -> f64 {
        f64::midpoint(self.low_s, self.high_s)
    }

    /// Returns how far a time may be from the truth, to either side.
    fn error(&self) -> Duration {
        Duration::try_from_secs_f64((self.high_s - self.low_s) / 2.0).unwrap_or(Duration::MAX)
    }

    /// Returns a time of the GPU as one of the program.
    fn time(&self, gpu_s: f64) -> Instant {
        let since_epoch = Duration::try_from_secs_f64(gpu_s + self.offset_s());
        self.epoch + since_epoch.unwrap_or_default()
    }

    /// Records the passes of a frame, and the scopes inside.
    fn record(&self, frame: u64, passes: &[GpuTimerQueryResult]) {
        for pass in passes {
            // Without a time, the device has no timestamps at such a place.
            if let Some(times) = &pass.time {
                let times = self.time(times.start)..self.time(times.end);
                vor::record_async_span(&format!("gpu: {}", pass.label), frame, times);
            }
            self.record(frame, &pass.nested_queries);
        }
    }
}

struct Gpu {
    name: String,
    device: wgpu::Device,
    queue: wgpu::Queue,
    profiler: GpuProfiler,
    clock: GpuClock,
    pipelines: Vec<wgpu::ComputePipeline>,
    bindings: Vec<wgpu::BindGroup>,
}

impl Gpu {
    fn new() -> Result<Self, Box<dyn Error>> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapter =
            pollster::block_on(instance.request_adapter(&Default::default())).map_err(|error| {
                format!("no GPU: {error}; install a driver, such as Mesa's lavapipe")
            })?;
        let timestamps = GpuProfiler::ALL_WGPU_TIMER_FEATURES & adapter.features();
        if !timestamps.contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Err(format!("{}: has no timestamps", adapter.get_info().name).into());
        }
        let (device, queue) =
            pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
                required_features: timestamps,
                required_limits: wgpu::Limits::downlevel_defaults(),
                ..Default::default()
            }))?;
        let profiler = GpuProfiler::new(&device, GpuProfilerSettings::default())?;
        let mut gpu = Self {
            name: adapter.get_info().name,
            device,
            queue,
            profiler,
            clock: GpuClock::new(),
            pipelines: Vec::new(),
            bindings: Vec::new(),
        };
        for steps in STEPS {
            gpu.add_pass(steps);
        }
        Ok(gpu)
    }

    /// Adds a pass that computes as many steps per invocation.
    fn add_pass(&mut self, steps: u32) {
        let source = format!(
            "@group(0) @binding(0) var<storage, read_write> values: array<u32>;
             @compute @workgroup_size(64)
             fn main(@builtin(global_invocation_id) id: vec3u) {{
                 var value = id.x;
                 for (var i = 0u; i < {steps}u; i++) {{ value = value * 1664525u + 1013904223u; }}
                 values[id.x] = value;
             }}"
        );
        let module = self
            .device
            .create_shader_module(wgpu::ShaderModuleDescriptor {
                label: None,
                source: wgpu::ShaderSource::Wgsl(source.into()),
            });
        let pipeline = self
            .device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: None,
                layout: None,
                module: &module,
                entry_point: Some("main"),
                compilation_options: Default::default(),
                cache: None,
            });
        let values = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: u64::from(GROUPS) * 64 * 4,
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        self.bindings
            .push(self.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &pipeline.get_bind_group_layout(0),
                entries: &[wgpu::BindGroupEntry {
                    binding: 0,
                    resource: values.as_entire_binding(),
                }],
            }));
        self.pipelines.push(pipeline);
    }

    /// Draws a frame and records its passes.
    #[vor::profile]
    fn draw(&mut self, frame: u64) -> Outcome {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut whole = self.profiler.scope("frame", &mut encoder);
            for (pass, label) in ["shadows", "lighting"].into_iter().enumerate() {
                let mut compute = whole.scoped_compute_pass(label);
                compute.set_pipeline(&self.pipelines[pass]);
                compute.set_bind_group(0, &self.bindings[pass], &[]);
                compute.dispatch_workgroups(GROUPS, 1, 1);
            }
        }
        self.profiler.resolve_queries(&mut encoder);
        let before = Instant::now();
        {
            vor::profile_scope!("submit");
            self.queue.submit([encoder.finish()]);
        }
        self.profiler.end_frame()?;
        {
            // A program with a window does not wait: it takes the results some frames later.
            vor::profile_scope!("wait");
            self.device.poll(wgpu::PollType::wait_indefinitely())?;
        }
        let after = Instant::now();
        let period_ns = self.queue.get_timestamp_period();
        let passes = self.profiler.process_finished_frame(period_ns);
        let passes = passes.ok_or("the GPU is done, and has no results")?;
        let times: Vec<_> = passes.iter().filter_map(|pass| pass.time.clone()).collect();
        if let (Some(first), Some(last)) = (times.first(), times.last()) {
            self.clock.bound((first.start, last.end), before, after);
        }
        self.clock.record(frame, &passes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vor::capture::{Event, Reader, TaskEventKind};

    use super::*;

    #[test]
    fn a_clock_is_bounded_by_causes_and_effects_and_follows_a_drift() {
        let mut clock = GpuClock::new();
        let at = |clock: &GpuClock, s: f64| clock.epoch + Duration::from_secs_f64(s);
        // The GPU's clock is 100 s behind: its 0 is the program's 100.
        clock.bound((1.002, 1.004), at(&clock, 101.0), at(&clock, 101.005));
        assert_eq!(clock.error().as_micros(), 1500);
        // Work that begins soon bounds it from below, and an end that is seen soon from above.
        clock.bound((2.0, 2.1), at(&clock, 101.9999), at(&clock, 102.2));
        clock.bound((3.0, 3.1), at(&clock, 102.9), at(&clock, 103.1001));
        assert!(clock.error() < Duration::from_micros(101), "{clock:?}");
        let time = (clock.time(5.0) - clock.epoch).as_secs_f64();
        assert!((time - 105.0).abs() <= 1e-4, "{time}");
        // A frame that the old bounds exclude.
        clock.bound((4.0, 4.1), at(&clock, 104.01), at(&clock, 104.13));
        assert!((clock.offset_s() - 100.02).abs() < 1e-9, "{clock:?}");
    }

    #[test]
    fn passes_are_tasks_between_their_submission_and_their_end() {
        let mut gpu = match Gpu::new() {
            Ok(gpu) => gpu,
            Err(error) => return eprintln!("SKIPPED, no pass was measured: {error}"),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        vor::Config::new().capture(&path).enable();
        for frame in 0..FRAMES {
            gpu.draw(frame).unwrap();
        }
        check_offset(&gpu);
        vor::close_capture();

        let (mut numbers, mut passes) = (BTreeMap::new(), Vec::new());
        let (mut submits, mut waits) = (Vec::new(), Vec::new());
        let mut timeline = None;
        let mut reader = Reader::open(&path).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            let Event::Batch(batch) = event else { continue };
            let name = |site| batch.catalog.site_name(site).to_owned();
            for thread in &batch.threads {
                for span in 0..thread.len() {
                    match name(thread.sites[span]).as_str() {
                        "submit" => submits.push(thread.start_ticks[span]),
                        "wait" => waits.push(thread.end_ticks(span)),
                        _ => {}
                    }
                }
                for event in &thread.task_events {
                    if let TaskEventKind::Begin { given_id } = event.kind {
                        numbers.insert(event.task, given_id as usize);
                    }
                }
                passes.extend(
                    thread
                        .async_spans
                        .iter()
                        .map(|pass| (name(pass.site), *pass)),
                );
            }
            timeline = Some(batch.catalog.timeline.clone());
        }
        let timeline = timeline.unwrap();
        let ns = |ticks: u64| timeline.unix_ns(ticks);
        let mut sums_ns: BTreeMap<&str, i64> = BTreeMap::new();
        for (name, pass) in &passes {
            let number = numbers[&pass.id];
            let (start_ns, end_ns) = (ns(pass.start_ticks), ns(pass.end_ticks()));
            // The bounds of later frames are narrower, and rounding takes a little.
            assert!(
                start_ns >= ns(submits[number]) - 5_000,
                "{name} of frame {number}"
            );
            assert!(
                end_ns <= ns(waits[number]) + 5_000,
                "{name} of frame {number}"
            );
            *sums_ns.entry(name).or_default() += end_ns - start_ns;
        }
        assert_eq!(passes.len() as u64, 3 * FRAMES);
        let [whole, lighting, shadows] =
            ["gpu: frame", "gpu: lighting", "gpu: shadows"].map(|name| sums_ns[name]);
        // Ten times as many steps, and both passes are inside the frame.
        assert!(lighting > 3 * shadows, "{sums_ns:?}");
        assert!(whole >= lighting + shadows, "{sums_ns:?}");
    }

    /// Compares the estimated offset with the true one, where it is known: lavapipe's timestamps
    /// are those of the system's monotonic clock, and so are the times of the standard library.
    #[cfg(target_os = "linux")]
    fn check_offset(gpu: &Gpu) {
        if !gpu.name.contains("llvmpipe") {
            return eprintln!("SKIPPED, the clock of {} is unknown", gpu.name);
        }
        let since_epoch = gpu.clock.epoch.elapsed().as_secs_f64();
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_s = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9;
        // Between the two readings the thread may lose its core for a moment.
        let truth_s = since_epoch - now_s;
        let error_s = gpu.clock.error().as_secs_f64() + 100e-6;
        assert!(
            (gpu.clock.offset_s() - truth_s).abs() <= error_s,
            "{:?} {truth_s}",
            gpu.clock
        );
    }

    #[cfg(not(target_os = "linux"))]
    fn check_offset(_: &Gpu) {}
}
