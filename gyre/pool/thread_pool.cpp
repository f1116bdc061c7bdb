// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/thread_pool.hpp>

#include <utility>

namespace gyre {

thread_pool::thread_pool(options how) : core_(detail::pool_core::make(std::move(how))) {}

thread_pool::~thread_pool() { core_->leave(); }

}  // namespace gyre
