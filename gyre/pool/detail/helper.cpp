// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/helper.hpp>

#include <utility>

namespace gyre::detail {
namespace {

constinit thread_local helper* innermost_helper = nullptr;

}  // namespace

[[gnu::noinline]] helper* current_helper() noexcept { return innermost_helper; }

helping_scope::helping_scope(helper& new_helper) noexcept
    : outer_(std::exchange(innermost_helper, &new_helper)) {}

helping_scope::~helping_scope() { innermost_helper = outer_; }

}  // namespace gyre::detail
