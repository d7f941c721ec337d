//! An allocator below the tracked one that checks its calls, and sequences of requests that are
//! compared with a model.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::sync::Mutex;

use proptest::prelude::*;

/// Larger requests are refused.
pub const REFUSED_BYTES: usize = 1 << 20;

/// Passes calls on to the system's allocator. Fails the test where an object is freed with another
/// layout than that of its allocation.
pub struct CheckedAllocator {
    live: Mutex<Option<HashMap<usize, Layout>>>,
}

impl CheckedAllocator {
    pub const fn new() -> Self {
        Self {
            live: Mutex::new(None),
        }
    }

    fn insert(&self, object: *mut u8, layout: Layout) -> *mut u8 {
        let mut live = self.live.lock().unwrap();
        let before = live.get_or_insert_default().insert(object.addr(), layout);
        assert_eq!(before, None, "the address is already live");
        object
    }

    fn remove(&self, object: *mut u8, layout: Layout) {
        let live = self
            .live
            .lock()
            .unwrap()
            .as_mut()
            .unwrap()
            .remove(&object.addr());
        assert_eq!(live, Some(layout), "freed with another layout");
    }

    pub fn objects(&self) -> usize {
        self.live.lock().unwrap().as_ref().map_or(0, HashMap::len)
    }
}

/// The system's allocator has no empty objects.
fn at_least_one_byte(layout: Layout) -> Layout {
    Layout::from_size_align(layout.size().max(1), layout.align()).unwrap()
}

#[expect(unsafe_code, reason = "an allocator is unsafe to write")]
// SAFETY: every call goes to the system's allocator, with at least one byte; none unwinds in a test
// that passes.
unsafe impl GlobalAlloc for CheckedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > REFUSED_BYTES {
            return std::ptr::null_mut();
        }
        // SAFETY: the layout is not empty.
        self.insert(unsafe { System.alloc(at_least_one_byte(layout)) }, layout)
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        self.remove(object, layout);
        // SAFETY: the layout is that of the allocation.
        unsafe { System.dealloc(object, at_least_one_byte(layout)) }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if new_size > REFUSED_BYTES {
            return std::ptr::null_mut();
        }
        self.remove(object, layout);
        // SAFETY: the layout is that of the allocation, and the new size fits a layout.
        let moved = unsafe { System.realloc(object, at_least_one_byte(layout), new_size.max(1)) };
        self.insert(
            moved,
            Layout::from_size_align(new_size, layout.align()).unwrap(),
        )
    }
}

/// A request; places count modulo the number of objects.
#[derive(Clone, Debug)]
pub enum Request {
    Make {
        bytes: usize,
        align_bits: u32,
        zeroed: bool,
    },
    Remake {
        place: usize,
        bytes: usize,
    },
    GiveBack {
        place: usize,
    },
}

/// Sizes from `least` on: small ones, large ones, and some that are refused.
pub fn requests(least: usize) -> impl Strategy<Value = Vec<Request>> {
    let bytes = move || {
        prop_oneof![
            8 => least..least + 80,
            4 => least..5000,
            1 => least..200_000,
            1 => REFUSED_BYTES - 8..REFUSED_BYTES + 64,
        ]
    };
    let make =
        (bytes(), 0_u32..13, any::<bool>()).prop_map(|(bytes, align_bits, zeroed)| Request::Make {
            bytes,
            align_bits,
            zeroed,
        });
    let remake =
        (any::<usize>(), bytes()).prop_map(|(place, bytes)| Request::Remake { place, bytes });
    let give_back = any::<usize>().prop_map(|place| Request::GiveBack { place });
    proptest::collection::vec(prop_oneof![4 => make, 3 => remake, 2 => give_back], 1..60)
}

/// The counts of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub alloc_objects: u64,
    pub alloc_bytes: u64,
    pub free_objects: u64,
    pub free_bytes: u64,
}

struct Object {
    address: *mut u8,
    layout: Layout,
    mark: u8,
}

impl Object {
    #[expect(unsafe_code, reason = "memory by hand")]
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the object has this size, and all its bytes were written after the allocation.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.layout.size()) }
    }

    fn check(&mut self) {
        assert!(self.address.addr().is_multiple_of(self.layout.align()));
        let mark = self.mark;
        assert!(
            self.bytes().iter().all(|byte| *byte == mark),
            "the content is whole"
        );
    }
}

/// Sends the requests to `allocator`, and checks the address and content of every object. After
/// each request, it calls `check` with the counts of the model and the live objects and bytes.
/// Frees everything at the end.
#[expect(unsafe_code, reason = "allocators are called by hand")]
pub fn run_requests(
    allocator: &impl GlobalAlloc,
    requests: &[Request],
    mut check: impl FnMut(Expected, (u64, u64)),
) {
    let mut objects: Vec<Object> = Vec::new();
    let mut counted = Expected::default();
    let mut in_use = (0, 0);
    for (number, request) in requests.iter().enumerate() {
        let mark = number as u8 | 1;
        match *request {
            Request::Make {
                bytes,
                align_bits,
                zeroed,
            } => {
                let layout = Layout::from_size_align(bytes, 1 << align_bits).unwrap();
                // SAFETY: the allocator below accepts empty layouts too.
                let address = unsafe {
                    if zeroed {
                        allocator.alloc_zeroed(layout)
                    } else {
                        allocator.alloc(layout)
                    }
                };
                if !address.is_null() {
                    let mut object = Object {
                        address,
                        layout,
                        mark: 0,
                    };
                    if zeroed {
                        object.check();
                    }
                    object.mark = mark;
                    // SAFETY: the object has this size.
                    unsafe { address.write_bytes(mark, bytes) };
                    objects.push(object);
                    counted.alloc_objects += 1;
                    counted.alloc_bytes += bytes as u64;
                    in_use = (in_use.0 + 1, in_use.1 + bytes as u64);
                } else {
                    assert!(bytes + 4 > REFUSED_BYTES);
                }
            }
            Request::Remake { place, bytes } if !objects.is_empty() => {
                let count = objects.len();
                let object = &mut objects[place % count];
                // SAFETY: this allocator made the object with this layout; the new size fits a
                // layout.
                let moved = unsafe { allocator.realloc(object.address, object.layout, bytes) };
                if moved.is_null() {
                    assert!(bytes + 4 > REFUSED_BYTES);
                    object.check();
                } else {
                    let kept = bytes.min(object.layout.size());
                    counted.free_objects += 1;
                    counted.free_bytes += object.layout.size() as u64;
                    counted.alloc_objects += 1;
                    counted.alloc_bytes += bytes as u64;
                    in_use.1 = in_use.1 - object.layout.size() as u64 + bytes as u64;
                    object.address = moved;
                    object.layout = Layout::from_size_align(kept, object.layout.align()).unwrap();
                    object.check();
                    object.layout = Layout::from_size_align(bytes, object.layout.align()).unwrap();
                    object.mark = mark;
                    // SAFETY: the object has this size.
                    unsafe { moved.write_bytes(mark, bytes) };
                }
            }
            Request::GiveBack { place } if !objects.is_empty() => {
                let mut object = objects.swap_remove(place % objects.len());
                give_back(allocator, &mut object, &mut counted, &mut in_use);
            }
            _ => {}
        }
        check(counted, in_use);
    }
    for mut object in objects {
        give_back(allocator, &mut object, &mut counted, &mut in_use);
    }
    check(counted, in_use);
}

#[expect(unsafe_code, reason = "allocators are called by hand")]
fn give_back(
    allocator: &impl GlobalAlloc,
    object: &mut Object,
    counted: &mut Expected,
    in_use: &mut (u64, u64),
) {
    object.check();
    // SAFETY: this allocator made the object with this layout, and the caller does not use it
    // again.
    unsafe { allocator.dealloc(object.address, object.layout) };
    let bytes = object.layout.size() as u64;
    counted.free_objects += 1;
    counted.free_bytes += bytes;
    *in_use = (in_use.0 - 1, in_use.1 - bytes);
}
