// SPDX-License-Identifier: Apache-2.0
// Replaces the slab: the checker watches memory from operator new.
#include <gyre/base/slab.hpp>

#include <gyre/base/detail/slab_class.hpp>

#include <cstddef>
#include <new>

namespace gyre {

void* slab_allocate(std::size_t bytes) { return ::operator new(bytes); }
void slab_deallocate(void* memory, std::size_t) noexcept { ::operator delete(memory); }

namespace detail {

void* slab_allocate_class(std::size_t index) { return ::operator new(slab_class_bytes.at(index)); }
void slab_deallocate_class(void* memory, std::size_t) noexcept { ::operator delete(memory); }
void slab_deallocate_frame(void* memory) noexcept { ::operator delete(memory); }

}  // namespace detail
}  // namespace gyre
