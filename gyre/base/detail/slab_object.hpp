// SPDX-License-Identifier: Apache-2.0
// slab_object, slab_frame, short_lived_object: bases of classes whose objects live in the slab.
#pragma once

#include <gyre/base/cache_line.hpp>
#include <gyre/base/detail/block_cache.hpp>
#include <gyre/base/detail/slab_class.hpp>
#include <gyre/base/slab.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace gyre::detail {

/// `new` and `delete` of a derived class use the calling thread's slab. A class that is deleted
/// through a base needs a virtual destructor there, because `delete` passes the size of the
/// complete object.
struct slab_object {
  static void* operator new(std::size_t bytes) { return slab_allocate(bytes); }
  static void* operator new(std::size_t, void* memory) noexcept { return memory; }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    slab_deallocate(memory, bytes);
  }
  static void operator delete(void*, void*) noexcept {}
  // The next two operators are for over-aligned classes.
  static void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return fits_lines(bytes, alignment) ? slab_allocate(bytes) : ::operator new(bytes, alignment);
  }
  static void operator delete(void* memory, std::size_t bytes,
                              std::align_val_t alignment) noexcept {
    if (fits_lines(bytes, alignment)) return slab_deallocate(memory, bytes);
    ::operator delete(memory, bytes, alignment);
  }

 private:
  // Returns whether a block satisfies the alignment: blocks of whole cache lines are aligned to
  // lines.
  static constexpr bool fits_lines(std::size_t bytes, std::align_val_t alignment) noexcept {
    return static_cast<std::size_t>(alignment) <= cache_line_size && bytes % cache_line_size == 0 &&
           bytes <= slab_max_bytes;
  }
};

/// Base of promises whose frames live in slabs. The size class is known at compile time. There is
/// no other form of operator new, because a coroutine's parameters could select it.
struct slab_frame {
  static void* operator new(std::size_t bytes) {
    void* const frame =
        bytes > slab_max_bytes ? slab_allocate(bytes) : allocate_frame(slab_class_of(bytes));
    return __builtin_assume_aligned(frame, slab_alignment);
  }
  static void operator delete(void* frame, std::size_t bytes) noexcept {
    if (bytes > slab_max_bytes) [[unlikely]] {
      slab_deallocate(frame, bytes);
    } else {
      slab_deallocate_class(frame, slab_class_of(bytes));
    }
  }
};

/// A slab_object that uses the stacks of free blocks of coroutine frames. Must be deleted by its
/// own type.
struct short_lived_object : slab_object {
  using slab_object::operator new;
  using slab_object::operator delete;
  static void* operator new(std::size_t bytes) { return slab_frame::operator new(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    slab_frame::operator delete(memory, bytes);
  }
};

/// Holds an object of type T in a block of the slab.
template <class T>
struct slab_box : slab_object {
  template <class... Args>
  explicit slab_box(Args&&... args) : object(std::forward<Args>(args)...) {}
  T object;
};

}  // namespace gyre::detail
