// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/helper.hpp>

#include <utility>

namespace gyre::detail {
namespace {

constinit thread_local helper* innermost = nullptr;

}  // namespace

[[gnu::noinline]] helper* current_helper() noexcept { return innermost; }

helping_scope::helping_scope(helper& with) noexcept : outer_(std::exchange(innermost, &with)) {}

helping_scope::~helping_scope() { innermost = outer_; }

}  // namespace gyre::detail
