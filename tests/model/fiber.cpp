// SPDX-License-Identifier: Apache-2.0
//
// Implementation of fibers, arenas and the program's image.
#include <tests/model/fiber.hpp>

#include <asm/prctl.h>

#include <cxxabi.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#if !defined(__x86_64__) || !defined(__linux__)
#error "The model checker's fibers are written for x86-64 Linux."
#endif

extern "C" {
extern char __data_start[];  // NOLINT(bugprone-reserved-identifier): the linker's name
extern char _end[];          // NOLINT(bugprone-reserved-identifier): the linker's name
void gyre_model_switch_stack(void** save, void* load);
}

// Saves the registers that a call preserves, changes stacks, restores them.
__asm__(R"(
.text
.globl gyre_model_switch_stack
.type gyre_model_switch_stack, @function
gyre_model_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size gyre_model_switch_stack, .-gyre_model_switch_stack
)");

namespace gyre::model {
namespace {

void* map(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc{};
  return memory;
}

std::uintptr_t own_thread_pointer() {
  return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
}

void set_thread_pointer(std::uintptr_t pointer) {
  constexpr unsigned long fsgsbase = 2;  // HWCAP2_FSGSBASE
  static const bool direct = (::getauxval(AT_HWCAP2) & fsgsbase) != 0;
  if (direct) {
    __asm__ volatile("wrfsbase %0" ::"r"(pointer) : "memory");
  } else {
    ::syscall(SYS_arch_prctl, ARCH_SET_FS, pointer);
  }
}

// Starts a thread that stays idle as long as the program runs, and returns its thread pointer.
std::uintptr_t borrow_thread_pointer() {
  struct lender {
    std::uintptr_t pointer = 0;
    sem_t ready;
  } lent;
  ::sem_init(&lent.ready, 0, 0);
  pthread_t thread;
  const int error = ::pthread_create(
      &thread, nullptr,
      [](void* argument) -> void* {
        auto* to = static_cast<lender*>(argument);
        to->pointer = own_thread_pointer();
        ::sem_post(&to->ready);
        for (;;) ::pause();
      },
      &lent);
  if (error != 0) std::abort();
  ::pthread_detach(thread);
  while (::sem_wait(&lent.ready) != 0) {
  }
  ::sem_destroy(&lent.ready);
  return lent.pointer;
}

// The program's own thread-locals: their offset from the thread pointer, and their initial values.
struct thread_locals {
  std::ptrdiff_t offset = 0;
  const void* image = nullptr;
  std::size_t image_bytes = 0;
  std::size_t bytes = 0;
};

int find_thread_locals(dl_phdr_info* info, std::size_t, void* result) {
  auto& found = *static_cast<thread_locals*>(result);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_TLS || info->dlpi_tls_data == nullptr) continue;
    const auto here = reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data);
    found = {.offset = static_cast<std::ptrdiff_t>(here - own_thread_pointer()),
             .image = reinterpret_cast<const void*>(info->dlpi_addr + header.p_vaddr),
             .image_bytes = header.p_filesz,
             .bytes = header.p_memsz};
  }
  return 1;  // the first object is the program; stop here
}

void initialise_thread_locals(std::uintptr_t thread_pointer) {
  static const thread_locals found = [] {
    thread_locals result;
    ::dl_iterate_phdr(find_thread_locals, &result);
    return result;
  }();
  if (found.bytes == 0) return;
  auto* begin =
      reinterpret_cast<std::byte*>(thread_pointer + static_cast<std::size_t>(found.offset));
  std::memcpy(begin, found.image, found.image_bytes);
  std::memset(begin + found.image_bytes, 0, found.bytes - found.image_bytes);
}

}  // namespace

fiber::context fiber::outside;

fiber::fiber() : stack_(reinterpret_cast<std::uintptr_t>(map(stack_bytes))) {
  ::mprotect(reinterpret_cast<void*>(stack_), 4096, PROT_NONE);
  context_.thread_pointer = borrow_thread_pointer();
}

// The lending thread is not ended: it costs nothing, and waking it is unsafe once a fiber has used
// its thread pointer.
fiber::~fiber() { ::munmap(reinterpret_cast<void*>(stack_), stack_bytes); }

void fiber::start(void (*entry)()) {
  initialise_thread_locals(context_.thread_pointer);
  // Six registers, the address to return to, and the null that ends a stack walk: after the return
  // the stack is as after a call, eight bytes off its alignment.
  auto* top = reinterpret_cast<void**>(stack_ + stack_bytes) - 3;
  *top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  context_.stack_pointer = top;
}

// Nothing here may be cached across the change of the thread pointer, hence the plain statements.
[[gnu::noinline]] void fiber::switch_between(fiber* from, fiber* to) {
  context& leaving = from != nullptr ? from->context_ : outside;
  const context& entering = to != nullptr ? to->context_ : outside;
  leaving.thread_pointer = own_thread_pointer();
  set_thread_pointer(entering.thread_pointer);
  gyre_model_switch_stack(&leaving.stack_pointer, entering.stack_pointer);
}

arena::arena()
    : base_(reinterpret_cast<std::uintptr_t>(map(arena_bytes))),
      states_(static_cast<state*>(map(arena_bytes / granule))) {}

arena::~arena() {
  ::munmap(reinterpret_cast<void*>(base_), arena_bytes);
  ::munmap(states_, arena_bytes / granule);
}

void* arena::allocate(std::size_t size, std::size_t alignment) {
  alignment = std::max(alignment, granule);
  const auto address = (base_ + used_ + granule + alignment - 1) & ~(alignment - 1);
  const auto rounded = (std::max<std::size_t>(size, 1) + granule - 1) & ~(granule - 1);
  if (address + rounded > base_ + arena_bytes) throw std::bad_alloc{};
  used_ = address + rounded - base_;  // the next block starts a granule further: overruns show
  blocks_.push_back({.address = address, .size = size, .live = true});
  mark(address, size, state::live);
  auto* memory = reinterpret_cast<void*>(address);
  std::memset(memory, 0xcd, std::min(size, filled_bytes));
  return memory;
}

void arena::release(block& freed) {
  freed.live = false;
  mark(freed.address, freed.size, state::freed);
  std::memset(reinterpret_cast<void*>(freed.address), 0xdd, std::min(freed.size, filled_bytes));
}

void arena::release_part(std::uintptr_t address, std::size_t size) {
  mark(address, size, state::freed);
  std::memset(reinterpret_cast<void*>(address), 0xdd, std::min(size, filled_bytes));
  block& holder = *std::prev(std::ranges::upper_bound(blocks_, address, {}, &block::address));
  holder.part_released += size;
  if (holder.part_released >= holder.size) holder.live = false;
}

void arena::forget_all() {
  for (const block& each : blocks_) mark(each.address, each.size, state::never_allocated);
  blocks_.clear();
  used_ = 0;
}

arena::block* arena::find(std::uintptr_t address) {
  const auto at = std::ranges::lower_bound(blocks_, address, {}, &block::address);
  return at != blocks_.end() && at->address == address ? &*at : nullptr;
}

void arena::mark(std::uintptr_t address, std::size_t size, state as) {
  const std::size_t granules = (std::max<std::size_t>(size, 1) + granule - 1) / granule;
  std::memset(&states_[(address - base_) / granule], static_cast<int>(as), granules);
}

program_image::program_image()
    : saved_(reinterpret_cast<std::byte*>(__data_start), reinterpret_cast<std::byte*>(_end)) {}

void program_image::restore() const { std::memcpy(__data_start, saved_.data(), saved_.size()); }

}  // namespace gyre::model
