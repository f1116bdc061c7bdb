// SPDX-License-Identifier: Apache-2.0
//
// Interception of ordinary code by the checker. The code under test is compiled with
// -fsanitize=thread, but not linked with ThreadSanitizer: the calls that the compiler inserts
// before each plain access and in place of each std::atomic operation end here. So do new, delete,
// anonymous mmap, std::mutex, and the destructors of thread-local and static variables. Outside a
// scenario all of them work as usual.
#include <tests/model/scheduler.hpp>

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

// NOLINTBEGIN(bugprone-reserved-identifier): the names are those that compilers call

namespace {

using gyre::model::current;
using gyre::model::scheduler;
using gyre::model::word;

scheduler* watching() {
  scheduler* active = current();
  return active != nullptr && active->in_scenario() ? active : nullptr;
}

void accessed(const void* address, std::size_t size, bool writes, const void* pc) {
  if (size == 0) return;
  if (scheduler* active = watching()) {
    active->access(reinterpret_cast<std::uintptr_t>(address), size, writes, pc);
  }
}

template <typename Function>
Function* next_definition(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}

#define GYRE_ACCESS(bytes)                                        \
  void __tsan_read##bytes(void* address) {                        \
    accessed(address, bytes, false, __builtin_return_address(0)); \
  }                                                               \
  void __tsan_write##bytes(void* address) {                       \
    accessed(address, bytes, true, __builtin_return_address(0));  \
  }                                                               \
  void __tsan_unaligned_read##bytes(void* address) {              \
    accessed(address, bytes, false, __builtin_return_address(0)); \
  }                                                               \
  void __tsan_unaligned_write##bytes(void* address) {             \
    accessed(address, bytes, true, __builtin_return_address(0));  \
  }                                                               \
  void __tsan_read_write##bytes(void* address) {                  \
    accessed(address, bytes, true, __builtin_return_address(0));  \
  }                                                               \
  void __tsan_volatile_read##bytes(void* address) {               \
    accessed(address, bytes, false, __builtin_return_address(0)); \
  }                                                               \
  void __tsan_volatile_write##bytes(void* address) {              \
    accessed(address, bytes, true, __builtin_return_address(0));  \
  }
GYRE_ACCESS(1)
GYRE_ACCESS(2)
GYRE_ACCESS(4)
GYRE_ACCESS(8)
GYRE_ACCESS(16)
#undef GYRE_ACCESS

void __tsan_read_range(void* address, std::size_t size) {
  accessed(address, size, false, __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t size) {
  accessed(address, size, true, __builtin_return_address(0));
}
void __tsan_vptr_read(void** address) {
  accessed(address, sizeof(void*), false, __builtin_return_address(0));
}
void __tsan_vptr_update(void** address, void* value) {
  accessed(address, sizeof(void*), *address != value, __builtin_return_address(0));
}

void* __tsan_memcpy(void* to, const void* from, std::size_t size) {
  accessed(from, size, false, __builtin_return_address(0));
  accessed(to, size, true, __builtin_return_address(0));
  return std::memcpy(to, from, size);
}
void* __tsan_memmove(void* to, const void* from, std::size_t size) {
  accessed(from, size, false, __builtin_return_address(0));
  accessed(to, size, true, __builtin_return_address(0));
  return std::memmove(to, from, size);
}
void* __tsan_memset(void* to, int value, std::size_t size) {
  accessed(to, size, true, __builtin_return_address(0));
  return std::memset(to, value, size);
}

}  // extern "C"

// ---- std::atomic -----------------------------------------------------------------------------

namespace {

using gyre::model::detail::update;

std::memory_order order_from(int order) { return static_cast<std::memory_order>(order & 0xff); }
constexpr std::source_location in_std_atomic{};

std::uintptr_t at(const volatile void* atomic) { return reinterpret_cast<std::uintptr_t>(atomic); }

template <typename T>
T load(const volatile T* atomic, int order) {
  if (scheduler* active = watching()) {
    return static_cast<T>(active->load(at(atomic), sizeof(T), order_from(order), in_std_atomic));
  }
  return __atomic_load_n(atomic, __ATOMIC_SEQ_CST);
}

template <typename T>
void store(volatile T* atomic, T value, int order) {
  if (scheduler* active = watching()) {
    active->store(at(atomic), sizeof(T), value, order_from(order), in_std_atomic);
  } else {
    __atomic_store_n(atomic, value, __ATOMIC_SEQ_CST);
  }
}

template <typename T>
T apply(volatile T* atomic, update how, T operand, int order) {
  if (scheduler* active = watching()) {
    return static_cast<T>(
        active->apply(at(atomic), sizeof(T), how, operand, order_from(order), in_std_atomic));
  }
  switch (how) {
    case update::exchange: return __atomic_exchange_n(atomic, operand, __ATOMIC_SEQ_CST);
    case update::add: return __atomic_fetch_add(atomic, operand, __ATOMIC_SEQ_CST);
    case update::subtract: return __atomic_fetch_sub(atomic, operand, __ATOMIC_SEQ_CST);
    case update::bit_and: return __atomic_fetch_and(atomic, operand, __ATOMIC_SEQ_CST);
    case update::bit_or: return __atomic_fetch_or(atomic, operand, __ATOMIC_SEQ_CST);
    case update::bit_xor: return __atomic_fetch_xor(atomic, operand, __ATOMIC_SEQ_CST);
  }
  return operand;
}

template <typename T>
bool compare_exchange(volatile T* atomic, T* expected, T desired, bool weak, int success,
                      int failure) {
  if (scheduler* active = watching()) {
    word seen = *expected;
    const bool exchanged =
        active->compare_exchange(at(atomic), sizeof(T), seen, desired, weak, order_from(success),
                                 order_from(failure), in_std_atomic);
    if (!exchanged) *expected = static_cast<T>(seen);
    return exchanged;
  }
  return __atomic_compare_exchange_n(atomic, expected, desired, weak, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}

}  // namespace

extern "C" {

#define GYRE_ATOMIC(bits)                                                                          \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* a, int o) {   \
    return load(a, o);                                                                             \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* a, std::uint##bits##_t v,         \
                                   int o) {                                                        \
    store(a, v, o);                                                                                \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_exchange(volatile std::uint##bits##_t* a,              \
                                                     std::uint##bits##_t v, int o) {               \
    return apply(a, update::exchange, v, o);                                                       \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile std::uint##bits##_t* a,             \
                                                      std::uint##bits##_t v, int o) {              \
    return apply(a, update::add, v, o);                                                            \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_sub(volatile std::uint##bits##_t* a,             \
                                                      std::uint##bits##_t v, int o) {              \
    return apply(a, update::subtract, v, o);                                                       \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_and(volatile std::uint##bits##_t* a,             \
                                                      std::uint##bits##_t v, int o) {              \
    return apply(a, update::bit_and, v, o);                                                        \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_or(volatile std::uint##bits##_t* a,              \
                                                     std::uint##bits##_t v, int o) {               \
    return apply(a, update::bit_or, v, o);                                                         \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_xor(volatile std::uint##bits##_t* a,             \
                                                      std::uint##bits##_t v, int o) {              \
    return apply(a, update::bit_xor, v, o);                                                        \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile std::uint##bits##_t* a,               \
                                                    std::uint##bits##_t* e, std::uint##bits##_t d, \
                                                    int s, int f) {                                \
    return compare_exchange(a, e, d, false, s, f) ? 1 : 0;                                         \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile std::uint##bits##_t* a,                 \
                                                  std::uint##bits##_t* e, std::uint##bits##_t d,   \
                                                  int s, int f) {                                  \
    return compare_exchange(a, e, d, true, s, f) ? 1 : 0;                                          \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                  \
      volatile std::uint##bits##_t* a, std::uint##bits##_t e, std::uint##bits##_t d, int s,        \
      int f) {                                                                                     \
    compare_exchange(a, &e, d, false, s, f);                                                       \
    return e;                                                                                      \
  }
GYRE_ATOMIC(8)
GYRE_ATOMIC(16)
GYRE_ATOMIC(32)
GYRE_ATOMIC(64)
#undef GYRE_ATOMIC

void __tsan_atomic_thread_fence(int order) {
  if (scheduler* active = watching()) {
    active->fence(scheduler::fence_kind::ordinary, order_from(order), in_std_atomic);
  }
}
void __tsan_atomic_signal_fence(int) {}

// ---- Destructors of thread-locals and statics ------------------------------------------------

int __cxa_thread_atexit_impl(void (*)(void*), void*, void*);

int __cxa_thread_atexit(void (*function)(void*), void* object, void* library) {
  if (scheduler* active = watching()) {
    active->at_thread_exit(function, object);
    return 0;
  }
  return __cxa_thread_atexit_impl(function, object, library);
}

int __cxa_atexit(void (*function)(void*), void* object, void* library) {
  if (scheduler* active = watching()) {
    active->at_program_exit(function, object);
    return 0;
  }
  static auto* const real = next_definition<int(void (*)(void*), void*, void*)>("__cxa_atexit");
  return real(function, object, library);
}

// ---- Mutexes ---------------------------------------------------------------------------------

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (scheduler* active = watching()) {
    active->lock(mutex);
    return 0;
  }
  static auto* const real = next_definition<int(pthread_mutex_t*)>("pthread_mutex_lock");
  return real(mutex);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  if (scheduler* active = watching()) return active->try_lock(mutex) ? 0 : EBUSY;
  static auto* const real = next_definition<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  return real(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (scheduler* active = watching()) {
    active->unlock(mutex);
    return 0;
  }
  static auto* const real = next_definition<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  return real(mutex);
}

// ---- Memory ----------------------------------------------------------------------------------

void* mmap(void* address, std::size_t size, int protection, int flags, int file,
           off_t offset) noexcept {
  scheduler* active = watching();
  if (active != nullptr && (flags & MAP_ANONYMOUS) != 0) {
    // Aligned to a page, as by the kernel, so that callers who need more alignment take both paths.
    void* memory = active->allocate(size, 4096);
    std::memset(memory, 0, size);
    return memory;
  }
  return reinterpret_cast<void*>(
      ::syscall(SYS_mmap, address, size, protection, flags, file, offset));
}

int munmap(void* address, std::size_t size) noexcept {
  scheduler* active = watching();
  if (active != nullptr && active->unmap(address, size)) return 0;
  return static_cast<int>(::syscall(SYS_munmap, address, size));
}

}  // extern "C"

void* operator new(std::size_t size, std::align_val_t alignment) {
  if (scheduler* active = watching()) {
    return active->allocate(size, static_cast<std::size_t>(alignment));
  }
  void* memory = nullptr;
  if (::posix_memalign(&memory, static_cast<std::size_t>(alignment), size) != 0) {
    throw std::bad_alloc{};
  }
  return memory;
}

void* operator new(std::size_t size) { return operator new(size, std::align_val_t{16}); }

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  scheduler* active = current();
  if (active != nullptr && active->release(memory, __builtin_return_address(0))) return;
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  operator delete(memory);
}

// NOLINTEND(bugprone-reserved-identifier)
