// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/shared_queue_scheduler.hpp>

#include <gyre/pool/detail/pool_core.hpp>

namespace gyre::detail {

template <class Idlers>
shared_queue_scheduler<Idlers>::shared_queue_scheduler(pool_core& pool)
    : life_(pool.life()), workers_(pool.workers()), lanes_(pool.options().aging) {}

template <class Idlers>
shared_queue_scheduler<Idlers>::~shared_queue_scheduler() = default;

template <class Idlers>
void shared_queue_scheduler<Idlers>::run_worker(pool_worker& self) noexcept {
  run_worker_loop(*this, life_, self);
}

template class shared_queue_scheduler<sleeping_idlers>;
template class shared_queue_scheduler<yielding_idlers>;

}  // namespace gyre::detail
