// SPDX-License-Identifier: Apache-2.0
// slab_object: objects that are allocated from the slab.
#pragma once

#include <gyre/base/slab.hpp>

#include <cstddef>
#include <new>

namespace gyre::detail {

/// Allocates memory for a T: from the calling thread's slab unless T is over-aligned.
template <class T>
void* allocate_object() {
  if constexpr (alignof(T) <= slab_alignment) {
    return slab_allocate(sizeof(T));
  } else {
    return ::operator new(sizeof(T), std::align_val_t{alignof(T)});
  }
}
/// Frees memory of allocate_object<T>().
template <class T>
void deallocate_object(void* memory) noexcept {
  if constexpr (alignof(T) <= slab_alignment) {
    slab_deallocate(memory, sizeof(T));
  } else {
    ::operator delete(memory, sizeof(T), std::align_val_t{alignof(T)});
  }
}

/// `new` and `delete` of a derived class use the calling thread's slab. A class that is deleted
/// through a base needs a virtual destructor there, as the size is that of the deleted object.
struct slab_object {
  static void* operator new(std::size_t bytes) { return slab_allocate(bytes); }
  static void* operator new(std::size_t, void* memory) noexcept { return memory; }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    slab_deallocate(memory, bytes);
  }
  static void operator delete(void*, void*) noexcept {}
  // For over-aligned classes.
  static void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return ::operator new(bytes, alignment);
  }
  static void operator delete(void* memory, std::size_t bytes,
                              std::align_val_t alignment) noexcept {
    ::operator delete(memory, bytes, alignment);
  }
};

}  // namespace gyre::detail
