//! The allocator of the program and of the benches: [mimalloc](https://microsoft.github.io/mimalloc/), in place as soon as this package is
//! named (`use toolmark_allocator as _`). A package of its own, so that the few instructions around each allocation are optimised whatever
//! the level of the program's package.

use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::{c_long, c_void},
};

use libmimalloc_sys as mimalloc;

#[global_allocator]
static ALLOCATOR: Mimalloc = Mimalloc;

/// Greatest alignment, in bytes, that mimalloc gives without being asked (`MI_MAX_ALIGN_SIZE` of mimalloc/types.h). A smaller block is
/// aligned to every power of two that isn't greater than the block.
const USUAL_ALIGN: usize = 16;

/// mimalloc as an allocator. Nearly all that is asked for has a usual alignment, for which the library has shorter functions.
struct Mimalloc;

/// True if mimalloc aligns this without being asked.
#[inline]
const fn is_usual(layout: Layout, size: usize) -> bool {
    layout.align() <= USUAL_ALIGN && layout.align() <= size
}

// SAFETY: each function passes on what it got to the function of mimalloc that does the same, or, where `is_usual` holds, to the one
// without an alignment, whose blocks have it. All blocks may be freed and resized by either.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match is_usual(layout, layout.size()) {
            true => unsafe { mimalloc::mi_malloc(layout.size()) },
            false => unsafe { mimalloc::mi_malloc_aligned(layout.size(), layout.align()) },
        };
        block.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = match is_usual(layout, layout.size()) {
            true => unsafe { mimalloc::mi_zalloc(layout.size()) },
            false => unsafe { mimalloc::mi_zalloc_aligned(layout.size(), layout.align()) },
        };
        block.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        unsafe { mimalloc::mi_free(block.cast()) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let block = block.cast::<c_void>();
        let block = match is_usual(layout, size) {
            true => unsafe { mimalloc::mi_realloc(block, size) },
            false => unsafe { mimalloc::mi_realloc_aligned(block, size, layout.align()) },
        };
        block.cast()
    }
}

/// `mi_option_purge_delay` of mimalloc 2 (`enum mi_option_e` of mimalloc.h), for which the bindings have no name.
const PURGE_DELAY: mimalloc::mi_option_t = 15;
/// Milliseconds after which memory that was freed goes back to the system. After the usual 10 each large request took its pages from the
/// system anew: an eighth to a third of the system's time for conversations of 240 and 900 KB.
const PURGE_DELAY_MS: c_long = 100;

/// Keeps freed memory a little longer than the allocator would by itself, unless `MIMALLOC_PURGE_DELAY` says otherwise.
pub fn keep_freed_memory() {
    // SAFETY: it stores a number under an index that the library checks; any thread may call it at any time.
    unsafe { mimalloc::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delay of mimalloc 2 when nothing sets it: another number tells that the options were numbered anew.
    const USUAL_MS: c_long = 10;

    #[test]
    fn the_option_is_the_delay() {
        // SAFETY: it reads a number.
        let delay = || unsafe { mimalloc::mi_option_get(PURGE_DELAY) };
        let usual = delay();
        keep_freed_memory();
        match std::env::var_os("MIMALLOC_PURGE_DELAY") {
            Some(_) => assert_eq!(delay(), usual, "the environment's word counts"),
            None => assert_eq!((usual, delay()), (USUAL_MS, PURGE_DELAY_MS)),
        }
    }

    /// Blocks are aligned as asked for, hold what was written as they grow and shrink, and are zero where that was asked for.
    #[test]
    fn blocks() {
        for align in (0..=8).map(|power| 1 << power) {
            for size in [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 40, 100, 1000, 5000, 70_000, 3_000_000] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the sizes aren't zero, and what is read and written lies within the blocks, which are freed with their layouts.
                unsafe {
                    let zeroed = Mimalloc.alloc_zeroed(layout);
                    assert_eq!((zeroed as usize % align, std::slice::from_raw_parts(zeroed, size)), (0, &*vec![0; size]), "{layout:?}");
                    let block = Mimalloc.alloc(layout);
                    assert_eq!(block as usize % align, 0, "{layout:?}");
                    block.write_bytes(7, size);
                    for other in [size * 2 + 1, 1] {
                        let grown = Mimalloc.realloc(copy_of(block, layout), layout, other);
                        assert_eq!(grown as usize % align, 0, "{layout:?} to {other}");
                        let kept = size.min(other);
                        assert_eq!(std::slice::from_raw_parts(grown, kept), &*vec![7; kept], "{layout:?} to {other}");
                        Mimalloc.dealloc(grown, Layout::from_size_align(other, align).unwrap());
                    }
                    Mimalloc.dealloc(block, layout);
                    Mimalloc.dealloc(zeroed, layout);
                }
            }
        }
    }

    /// A block like this one, with what it holds.
    unsafe fn copy_of(block: *mut u8, layout: Layout) -> *mut u8 {
        unsafe {
            let copy = Mimalloc.alloc(layout);
            copy.copy_from(block, layout.size());
            copy
        }
    }
}
