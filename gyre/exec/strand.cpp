// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/strand.hpp>

#include <gyre/base/detail/droppable_operation.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/exec/detail/strand_core.hpp>

#include <new>
#include <utility>

namespace gyre {
namespace detail {
namespace {

/// An operation that the strand's destructor discards if it has not run. It owns itself until then.
class discardable_post final : public slab_object, public operation {
 public:
  discardable_post(operation& op, run_or_discard::discard_function discard) noexcept
      : operation(&run), work_(op, discard) {}

  /// Discards `candidate` if it is a discardable_post.
  static void discard_if_possible(operation& candidate) noexcept {
    if (candidate.executes(&run)) delete static_cast<discardable_post*>(&candidate);
  }

 private:
  static void run(operation& self) {
    auto* const post = static_cast<discardable_post*>(&self);
    run_or_discard work = std::move(post->work_);
    delete post;
    work();
  }

  run_or_discard work_;
};

}  // namespace

}  // namespace detail

strand::strand(executor& target)
    : target_(target), core_(new detail::strand_core(target, max_per_turn)) {}

strand::~strand() {
  // The loop repeats because destructors of discarded coroutines may post again.
  for (auto operations = core_->close(); !operations.empty(); operations = core_->close()) {
    while (operation* const next_operation = operations.pop_front()) {
      detail::discardable_post::discard_if_possible(*next_operation);
    }
  }
  core_->release();
}

void strand::post(operation& op) noexcept { core_->post(op); }

void strand::post_discardable(operation& op, void (*discard)(operation& op) noexcept) {
  detail::discardable_post* post = nullptr;
  try {
    post = new detail::discardable_post(op, discard);
  } catch (const std::bad_alloc&) {
    discard(op);
    throw;
  }
  core_->post(*post);
}

bool strand::running_here() const noexcept { return core_->running_here(); }
bool strand::runs_only_here() const noexcept {
  return core_->waits_below() || target_.runs_only_here();
}

}  // namespace gyre
