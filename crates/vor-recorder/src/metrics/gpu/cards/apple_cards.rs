//! Apple's GPUs, read from the device registry and the energy counters.
//!
//! Any process may read both. A function's name determines who owns its result: the caller releases
//! the result of a `Create` or `Copy` function, and does not release that of a `Get` function.
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

/// Return value of `IOServiceGetMatchingServices` and similar functions on success.
const SUCCESS: i32 = 0;

/// The GPUs of the machine, at least one.
#[derive(Debug)]
pub struct Cards {
    /// Entries of the registry; this value releases each.
    accelerators: Vec<io_object_t>,
    /// The chip has one counter for its GPU, so it is only used if there is one accelerator.
    energy: Option<Energy>,
    values: [Option<f64>; COUNT],
}

impl Cards {
    /// Finds the GPUs; `None` if there are none.
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

    /// Does nothing: GPUs of a Mac do not get lost.
    pub fn find_lost(&mut self) {}

    /// Polls all GPUs. All of their rows change quickly.
    pub fn poll_fast(&mut self) {
        for number in 0..self.accelerators.len() {
            call_driver(|| self.poll_one(number));
        }
    }

    /// Does nothing: the energy counter is the source of the power.
    pub fn poll_energy(&mut self) {}

    /// Does nothing: no row changes slowly.
    pub fn poll_slow(&mut self) {}

    /// Does nothing: no row takes long to read.
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
            latest::publish(number, pace, &self.values, clock::ticks());
        }
    }
}

impl Drop for Cards {
    fn drop(&mut self) {
        for accelerator in &self.accelerators {
            // SAFETY: `IOIteratorNext` returned it, so this value owns it, and nothing uses it
            // afterwards.
            unsafe { IOObjectRelease(*accelerator) };
        }
    }
}

/// Returns the entries of all accelerators, which the caller must release.
fn accelerators() -> Vec<io_object_t> {
    let mut found = Vec::new();
    // SAFETY: the name ends with a zero. `IOServiceGetMatchingServices` takes ownership of the
    // dictionary whether it succeeds or not, so it is not released here. The iterator is written to
    // a local variable. This function owns it and each object that it returns, until it returns 0.
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
    // SAFETY: the entry is alive, the key lives across the call, and the result is null or owned by
    // the caller.
    let value = unsafe {
        IORegistryEntryCreateCFProperty(entry, key.as_concrete_TypeRef(), kCFAllocatorDefault, 0)
    };
    Some(copied(&owned(value)?, 0))
}

/// Takes ownership of the result of a `Create` or `Copy` function; dropping it releases it.
fn owned(value: CFTypeRef) -> Option<CFType> {
    // SAFETY: it is not null, and the caller owns it.
    (!value.is_null()).then(|| unsafe { CFType::wrap_under_create_rule(value) })
}

/// Copies the text that a `Get` function returned, without taking ownership; empty if it is null.
fn text(value: CFStringRef) -> String {
    if value.is_null() {
        return String::new();
    }
    // SAFETY: it is not null, and alive because its owner is. The wrapper retains and releases it.
    unsafe { CFString::wrap_under_get_rule(value) }.to_string()
}

/// Depth of the deepest dictionary that is copied.
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
                // SAFETY: neither is null, and both belong to the dictionary, which is alive; the
                // wrappers retain and release them. Keys and values of property lists are objects
                // of Core Foundation.
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
    /// The subscription and its channels are never released. The ownership of the subscription is
    /// not documented, and a process has one of each.
    subscription: *mut c_void,
    channels: CFMutableDictionaryRef,
    /// The last sample, which this value owns, and its time.
    last: Option<(CFType, Instant)>,
    _library: Library,
}

impl Energy {
    /// Subscribes to the counters; `None` if the system has none, as on Macs with Intel processors.
    fn new() -> Option<Self> {
        // SAFETY: the library is the system's own. The signatures are those of all known callers;
        // none is documented.
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
            // This function owns the result. The subscription reads it while it is created, so it
            // is released afterwards.
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
        // SAFETY: the subscription and its channels are alive, and the result is null or owned by
        // the caller.
        let sample = unsafe { (self.create_samples)(self.subscription, self.channels, null()) };
        let (sample, now) = (owned(sample as CFTypeRef)?, Instant::now());
        let (before, then) = self.last.replace((sample.clone(), now))?;
        // SAFETY: both samples are alive and of this subscription, and the result is null or owned
        // by the caller.
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
        // and releases it.
        let list = unsafe { CFType::wrap_under_get_rule(*list) };
        let Some(list) = list.downcast::<CFArray>() else {
            return Vec::new();
        };
        // SAFETY: an array of a property list has objects of Core Foundation; the wrapper retains
        // and releases it.
        let list = unsafe {
            CFArray::<CFType>::wrap_under_get_rule(list.as_concrete_TypeRef() as CFArrayRef)
        };
        let channel = |item: core_foundation::base::ItemRef<'_, CFType>| {
            let entry = item.downcast::<CFDictionary>()?.as_concrete_TypeRef();
            // SAFETY: the entry is a dictionary of the list, which is alive, and owns the texts.
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
