//! Apple's GPUs: what the registry of devices and the energy counters say of them.
//!
//! Both are open to every process. Who owns what is said at each call: what a function whose name
//! has `Create` or `Copy` returns is ours to release, and what one with `Get` returns is not.
#![expect(unsafe_code, reason = "the system's interfaces are C")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::time::Instant;

use core_foundation::array::{CFArray, CFArrayRef};
use core_foundation::base::{CFType, CFTypeRef, TCFType, kCFAllocatorDefault};
use core_foundation::dictionary::{CFDictionary, CFDictionaryRef, CFMutableDictionaryRef};
use core_foundation::number::CFNumber;
use core_foundation::string::{CFString, CFStringRef};
use io_kit_sys::types::{io_iterator_t, io_object_t};
use io_kit_sys::{
    IOIteratorNext, IOObjectRelease, IORegistryEntryCreateCFProperty, IOServiceGetMatchingServices,
    IOServiceMatching,
};
use libloading::Library;

use super::super::apple::{self, Channel, ENERGY_GROUP, Property};
use super::latest;
use super::poller::call_driver;
use super::report_no_rows;
use super::rows::{COUNT, Pace, Row};
use crate::clock;

/// What `IOServiceGetMatchingServices` and its like return where they succeed.
const SUCCESS: i32 = 0;

/// The GPUs of the machine, at least one.
#[derive(Debug)]
pub struct Cards {
    /// Entries of the registry, each ours to release.
    accelerators: Vec<io_object_t>,
    /// There is one counter for the chip's GPU, so it belongs to the only one.
    energy: Option<Energy>,
    values: [Option<f64>; COUNT],
}

impl Cards {
    /// Finds the GPUs; `None` where there are none.
    pub fn find() -> Option<Self> {
        let accelerators = accelerators();
        if accelerators.is_empty() {
            report_no_rows("no IOAccelerator found");
            return None;
        }
        latest::reset(accelerators.len());
        let energy = (accelerators.len() == 1).then(Energy::new).flatten();
        Some(Self {
            accelerators,
            energy,
            values: [None; COUNT],
        })
    }

    pub(super) fn count(&self) -> usize {
        self.accelerators.len()
    }

    /// No GPU gets lost.
    pub fn find_lost(&mut self) {}

    /// Polls all GPUs. All of their rows change quickly.
    pub fn poll_fast(&mut self) {
        for number in 0..self.accelerators.len() {
            call_driver(|| self.poll_one(number));
        }
    }

    /// No row changes slowly.
    pub fn poll_slow(&mut self) {}

    /// No row takes long to read.
    pub fn poll_turn(&mut self) {}

    fn poll_one(&mut self, number: usize) {
        let performance = property(self.accelerators[number], "PerformanceStatistics");
        let found = apple::statistics(&performance.unwrap_or(Property::Other));
        self.values[Row::Util as usize] = found.util_pct;
        self.values[Row::Sm as usize] = found.renderer_pct;
        self.values[Row::Mem as usize] = found.mem_bytes.map(|bytes| bytes / 1e6);
        let counted = self.energy.as_mut().and_then(Energy::watts);
        self.values[Row::Power as usize] = counted.or(found.power_w);
        self.values[Row::Temp as usize] = found.temp_c;
        for pace in [Pace::Fast, Pace::Slow] {
            latest::publish(number, pace, &self.values, None, clock::ticks());
        }
    }
}

impl Drop for Cards {
    fn drop(&mut self) {
        for accelerator in &self.accelerators {
            // SAFETY: it came from `IOIteratorNext`, which gave it to us, and is not used
            // afterwards.
            unsafe { IOObjectRelease(*accelerator) };
        }
    }
}

/// Returns the entries of all accelerators, ours to release.
fn accelerators() -> Vec<io_object_t> {
    let mut found = Vec::new();
    // SAFETY: the name ends with a zero. The dictionary is ours, and `IOServiceGetMatchingServices`
    // takes it over whether it succeeds or not, so it is not released here. The iterator is written
    // to a place of this frame; it is ours, and so is each object that it gives, until it gives 0.
    unsafe {
        let matching = IOServiceMatching(c"IOAccelerator".as_ptr());
        if matching.is_null() {
            return found;
        }
        let mut iterator: io_iterator_t = 0;
        // 0 is the default port.
        let code = IOServiceGetMatchingServices(0, matching as CFDictionaryRef, &mut iterator);
        if code != SUCCESS || iterator == 0 {
            return found;
        }
        loop {
            match IOIteratorNext(iterator) {
                0 => break,
                entry => found.push(entry),
            }
        }
        IOObjectRelease(iterator);
    }
    found
}

/// Returns a copy of a property of an entry.
fn property(entry: io_object_t, key: &str) -> Option<Property> {
    let key = CFString::new(key);
    // SAFETY: the entry is alive, the key lives across the call, and what is returned is null or
    // ours.
    let value = unsafe {
        IORegistryEntryCreateCFProperty(entry, key.as_concrete_TypeRef(), kCFAllocatorDefault, 0)
    };
    Some(copied(&owned(value)?, 0))
}

/// Takes what a function with `Create` or `Copy` in its name returned; it is released when it is
/// dropped.
fn owned(value: CFTypeRef) -> Option<CFType> {
    // SAFETY: it is not null, and ours.
    (!value.is_null()).then(|| unsafe { CFType::wrap_under_create_rule(value) })
}

/// Copies the text that a function with `Get` in its name returned, which stays the owner's; empty
/// where there is none.
fn text(value: CFStringRef) -> String {
    if value.is_null() {
        return String::new();
    }
    // SAFETY: it is not null and alive, as its owner is; the wrapper retains it and releases it
    // again.
    unsafe { CFString::wrap_under_get_rule(value) }.to_string()
}

/// The deepest dictionary that is copied.
const MAX_DEPTH: usize = 4;

fn copied(value: &CFType, depth: usize) -> Property {
    if let Some(number) = value.downcast::<CFNumber>() {
        return match number.to_i64() {
            Some(integer) => Property::Integer(integer),
            None => number.to_f64().map_or(Property::Other, Property::Real),
        };
    }
    if let Some(text) = value.downcast::<CFString>() {
        return Property::Text(text.to_string());
    }
    match value.downcast::<CFDictionary>() {
        Some(dictionary) if depth < MAX_DEPTH => {
            let (keys, values) = dictionary.get_keys_and_values();
            let mut entries = BTreeMap::new();
            for (key, value) in keys.into_iter().zip(values) {
                if key.is_null() || value.is_null() {
                    continue;
                }
                // SAFETY: neither is null, both belong to the dictionary, which is alive; the
                // wrappers retain them and release them again. Keys and values of property lists
                // are objects of Core Foundation.
                let (key, value) = unsafe {
                    (
                        CFType::wrap_under_get_rule(key),
                        CFType::wrap_under_get_rule(value),
                    )
                };
                if let Some(key) = key.downcast::<CFString>() {
                    entries.insert(key.to_string(), copied(&value, depth + 1));
                }
            }
            Property::Dictionary(entries)
        }
        _ => Property::Other,
    }
}

type CopyChannels =
    unsafe extern "C" fn(CFStringRef, CFStringRef, u64, u64, u64) -> CFMutableDictionaryRef;
type CreateSubscription = unsafe extern "C" fn(
    *mut c_void,
    CFMutableDictionaryRef,
    *mut CFMutableDictionaryRef,
    u64,
    CFTypeRef,
) -> *mut c_void;
type CreateSamples =
    unsafe extern "C" fn(*mut c_void, CFMutableDictionaryRef, CFTypeRef) -> CFDictionaryRef;
type CreateDelta =
    unsafe extern "C" fn(CFDictionaryRef, CFDictionaryRef, CFTypeRef) -> CFDictionaryRef;
type GetText = unsafe extern "C" fn(CFDictionaryRef) -> CFStringRef;
type GetInteger = unsafe extern "C" fn(CFDictionaryRef, i32) -> i64;

/// The energy counters of IOReport.
#[derive(Debug)]
struct Energy {
    create_samples: CreateSamples,
    create_delta: CreateDelta,
    group: GetText,
    name: GetText,
    unit: GetText,
    integer: GetInteger,
    /// What is counted. Neither it nor the subscription is ever released: nothing says who owns the
    /// first, and there is one of each in the life of a process.
    subscription: *mut c_void,
    channels: CFMutableDictionaryRef,
    /// The last sample, ours, and when it was taken.
    last: Option<(CFType, Instant)>,
    _library: Library,
}

impl Energy {
    /// Subscribes to the counters; `None` where the system has none, as on Macs with processors of
    /// Intel's.
    fn new() -> Option<Self> {
        // SAFETY: the library is the system's own. The signatures are those that all known callers
        // use; none is documented.
        unsafe {
            let library = Library::new("/usr/lib/libIOReport.dylib").ok()?;
            let copy_channels = *library
                .get::<CopyChannels>(b"IOReportCopyChannelsInGroup\0")
                .ok()?;
            let subscribe = *library
                .get::<CreateSubscription>(b"IOReportCreateSubscription\0")
                .ok()?;
            let create_samples = *library
                .get::<CreateSamples>(b"IOReportCreateSamples\0")
                .ok()?;
            let create_delta = *library
                .get::<CreateDelta>(b"IOReportCreateSamplesDelta\0")
                .ok()?;
            let group = *library.get::<GetText>(b"IOReportChannelGetGroup\0").ok()?;
            let name = *library
                .get::<GetText>(b"IOReportChannelGetChannelName\0")
                .ok()?;
            let unit = *library
                .get::<GetText>(b"IOReportChannelGetUnitLabel\0")
                .ok()?;
            let integer = *library
                .get::<GetInteger>(b"IOReportSimpleGetIntegerValue\0")
                .ok()?;
            let wanted = CFString::new(ENERGY_GROUP);
            // What it returns is ours. The subscription reads it while it is made, so it is
            // released afterwards.
            let asked = copy_channels(wanted.as_concrete_TypeRef(), null(), 0, 0, 0);
            let _asked = owned(asked as CFTypeRef)?;
            let mut channels: CFMutableDictionaryRef = null_mut();
            let subscription = subscribe(null_mut(), asked, &mut channels, 0, null());
            if subscription.is_null() || channels.is_null() {
                return None;
            }
            Some(Self {
                create_samples,
                create_delta,
                group,
                name,
                unit,
                integer,
                subscription,
                channels,
                last: None,
                _library: library,
            })
        }
    }

    /// Returns the power since the last call.
    fn watts(&mut self) -> Option<f64> {
        // SAFETY: the subscription and its channels are alive, and what is returned is null or
        // ours.
        let sample = unsafe { (self.create_samples)(self.subscription, self.channels, null()) };
        let (sample, now) = (owned(sample as CFTypeRef)?, Instant::now());
        let (before, then) = self.last.replace((sample.clone(), now))?;
        // SAFETY: both samples are alive and of this subscription, and what is returned is null or
        // ours.
        let delta = unsafe {
            (self.create_delta)(
                before.as_CFTypeRef() as CFDictionaryRef,
                sample.as_CFTypeRef() as CFDictionaryRef,
                null(),
            )
        };
        let joules = apple::gpu_joules(&self.grown(&owned(delta as CFTypeRef)?))?;
        let seconds = now.duration_since(then).as_secs_f64();
        (seconds > 0.0).then(|| joules / seconds)
    }

    /// Returns the channels of a difference of two samples.
    fn grown(&self, delta: &CFType) -> Vec<Channel> {
        let Some(delta) = delta.downcast::<CFDictionary>() else {
            return Vec::new();
        };
        let key = CFString::from_static_string("IOReportChannels");
        let Some(list) = delta
            .find(key.as_CFTypeRef())
            .filter(|list| !list.is_null())
        else {
            return Vec::new();
        };
        // SAFETY: it is not null and belongs to the dictionary, which is alive; the wrapper retains
        // it and releases it again.
        let list = unsafe { CFType::wrap_under_get_rule(*list) };
        let Some(list) = list.downcast::<CFArray>() else {
            return Vec::new();
        };
        // SAFETY: an array of a property list has objects of Core Foundation; the wrapper retains
        // it and releases it again.
        let list = unsafe {
            CFArray::<CFType>::wrap_under_get_rule(list.as_concrete_TypeRef() as CFArrayRef)
        };
        let channel = |item: core_foundation::base::ItemRef<'_, CFType>| {
            let entry = item.downcast::<CFDictionary>()?.as_concrete_TypeRef();
            // SAFETY: the entry is a dictionary of the list, which is alive, and the texts are its
            // own.
            unsafe {
                Some(Channel {
                    group: text((self.group)(entry)),
                    name: text((self.name)(entry)),
                    unit: text((self.unit)(entry)),
                    grown: (self.integer)(entry, 0),
                })
            }
        };
        list.iter().filter_map(channel).collect()
    }
}
