//! The library that lives inside guests: it arrives before a program's first instruction ([`arrive`]), turns calls of C
//! libraries to itself ([`patch`]), and answers those that it is sure of ([`answer`]); all else goes on to the
//! supervisor, as if it were not there. No standard library, nothing allocated, no state but which pages were seen: it
//! may be interrupted, and begun again, anywhere. Not in it: the wall, which is the filter and the supervisor.
#![no_std]
#![no_main]
#![no_builtins] // no calls into a C library that is not there

mod answer;
mod arrive;
mod buffer;
mod data;
mod gate;
#[path = "../src/layout.rs"]
#[allow(dead_code)] // the other side's
mod layout;
mod memory;
mod patch;
#[path = "../src/rate.rs"]
#[allow(dead_code)] // the other side's
mod rate;
#[path = "../src/sites.rs"]
mod sites;
#[path = "../src/table.rs"]
mod table;

/// Nothing here panics on purpose; a guest that got here is not to go on.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: ends the process by SIGILL.
        unsafe { core::arch::asm!("ud2") }
    }
}

/// What compilers put in for themselves, of the C library that is not there.
mod builtin {
    use core::arch::asm;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe {
            asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") byte as u8);
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe {
            asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _);
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
        for at in 0..count {
            // SAFETY: the caller's.
            let (one, other) = unsafe { (one.add(at).read(), other.add(at).read()) };
            if one != other {
                return i32::from(one) - i32::from(other);
            }
        }
        0
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
        // SAFETY: the caller's.
        unsafe { memcmp(one, other, count) }
    }
}
