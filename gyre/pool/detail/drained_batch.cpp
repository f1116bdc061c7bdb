// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/drained_batch.hpp>

#include <utility>

namespace gyre::detail {
namespace {

constinit thread_local drained_batch* innermost_batch = nullptr;

}  // namespace

drained_batch& current_batch() noexcept { return *innermost_batch; }

drained_batch::drained_batch(in_place_runner& runner) noexcept
    : runner_(runner), outer_(std::exchange(innermost_batch, this)) {}
drained_batch::~drained_batch() { innermost_batch = outer_; }

}  // namespace gyre::detail
