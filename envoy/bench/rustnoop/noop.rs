//! A filter that does nothing, in Rust, on raw proxy-wasm exports: the yardstick for what any module costs. It has the
//! callbacks that Headgate's binding exports, and needs no crate.
#![no_std]

use core::ptr::{addr_of_mut, null_mut};

/// What the host hands over lies here. It does so once in a callback, and the filter reads none of it.
static mut BUFFER: [u8; 65536] = [0; 65536];

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

#[no_mangle]
pub extern "C" fn proxy_abi_version_0_2_1() {}

#[no_mangle]
pub extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    if size > 65536 {
        return null_mut();
    }
    unsafe { addr_of_mut!(BUFFER) as *mut u8 }
}

#[no_mangle]
pub extern "C" fn proxy_on_context_create(_: u32, _: u32) {}

#[no_mangle]
pub extern "C" fn proxy_on_vm_start(_: u32, _: u32) -> u32 {
    1
}

#[no_mangle]
pub extern "C" fn proxy_on_configure(_: u32, _: u32) -> u32 {
    1
}

#[no_mangle]
pub extern "C" fn proxy_on_tick(_: u32) {}

#[no_mangle]
pub extern "C" fn proxy_on_queue_ready(_: u32, _: u32) {}

#[no_mangle]
pub extern "C" fn proxy_on_request_headers(_: u32, _: u32, _: u32) -> u32 {
    0
}

#[no_mangle]
pub extern "C" fn proxy_on_request_body(_: u32, _: u32, _: u32) -> u32 {
    0
}

#[no_mangle]
pub extern "C" fn proxy_on_request_trailers(_: u32, _: u32) -> u32 {
    0
}

#[no_mangle]
pub extern "C" fn proxy_on_response_headers(_: u32, _: u32, _: u32) -> u32 {
    0
}

#[no_mangle]
pub extern "C" fn proxy_on_done(_: u32) -> u32 {
    1
}
