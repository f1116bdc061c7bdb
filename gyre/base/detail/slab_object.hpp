// SPDX-License-Identifier: Apache-2.0
// slab_object: objects that are allocated from the slab.
#pragma once

#include <gyre/base/slab.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace gyre::detail {

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

/// An object of any type from the slab.
template <class T>
struct slab_box : slab_object {
  template <class... Args>
  explicit slab_box(Args&&... args) : object(std::forward<Args>(args)...) {}
  T object;
};

}  // namespace gyre::detail
