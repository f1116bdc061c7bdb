// SPDX-License-Identifier: Apache-2.0
// Cost of calling one coroutine from another: nested, each awaiting the next, so that all frames
// exist at once; or in sequence, one coroutine awaiting as many others in a row. The chain is
// waited for synchronously, as in the published experiment, and every sum is checked.
#pragma once

#include <lab/experiments/coroutine_chain/chain.hpp>
#include <lab/harness/benchmark.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

namespace lab::coroutine_chain {

/// How the links are arranged.
enum class shape { nested, sequence };

/// Links of a chain: a constant of the build, as each link is a function.
inline constexpr int links = GYRE_LAB_LINKS;

struct parameters {
  coroutine_chain::shape shape = shape::nested;
  std::uint32_t links = coroutine_chain::links;
};

/// The interface of a contender.
template <class Chain>
concept contender_chain = std::default_initializable<Chain> && requires(Chain& chain, int awaits) {
  { chain.nested() } -> std::same_as<int>;          // sum_of_chain(links)
  { chain.sequence(awaits) } -> std::same_as<int>;  // one for each await
};

/// The additional interface of a contender whose memory does not come from malloc.
template <class Chain>
concept has_own_memory = requires {
  { Chain::mappings() } -> std::convertible_to<std::uint64_t>;     // made so far
  { Chain::frame_bytes() } -> std::convertible_to<std::uint64_t>;  // of a link
};

/// A coroutine that returns its value without suspending.
template <class Runtime>
GYRE_LAB_LINK task_of<Runtime> ready() {
  co_return chain_end;
}

template <class Runtime>
task_of<Runtime> in_a_row(int awaits) {
  int sum = 0;
  for (int i = 0; i < awaits; ++i) sum += co_await ready<Runtime>();
  co_return sum;
}

/// The published program waits for a coroutine that awaits the chain.
template <class Runtime>
task_of<Runtime> start() {
  co_return co_await link<Runtime, links>();
}

/// The contender made of coroutines. A runtime names its `task` and has `int wait(task<int>)`,
/// which runs a task to its end on this thread.
template <class Runtime>
class coroutines {
 public:
  int nested() { return runtime_.wait(start<Runtime>()); }
  int sequence(int awaits) { return runtime_.wait(in_a_row<Runtime>(awaits)); }

  static std::uint64_t mappings()
    requires has_own_memory<Runtime>
  {
    return Runtime::mappings();
  }
  static std::uint64_t frame_bytes()
    requires has_own_memory<Runtime>
  {
    return Runtime::frame_bytes();
  }

 private:
  Runtime runtime_;
};

/// The requests to the system and to malloc so far; empty where they cannot be counted.
template <class Chain>
std::optional<std::uint64_t> all_allocations() {
  std::optional<std::uint64_t> sum = allocations();
  if constexpr (has_own_memory<Chain>) {
    if (sum) *sum += Chain::mappings();
  }
  return sum;
}

/// Runs chains and adds up their results.
template <contender_chain Chain>
class runs {
 public:
  runs(shape form, fault sabotage) : shape_(form), sabotage_(sabotage) {}

  void one() { one_of(links); }

  /// A run that ends with one link too few or too many, as `sabotage` says.
  void sabotaged() {
    const int change = sabotage_ == fault::none ? 0 : sabotage_ == fault::lose ? -1 : 1;
    if (shape_ == shape::nested) chain_end += change;
    one_of(links + change);
    if (shape_ == shape::nested) chain_end -= change;
  }

  /// The size of a link's frame in a nested chain; empty where allocations are not counted.
  std::optional<double> frame_bytes() {
    const auto before = allocated_bytes();
    if (!before) return std::nullopt;
    if constexpr (has_own_memory<Chain>) {
      return static_cast<double>(Chain::frame_bytes());
    } else {
      int value = chain_.nested();
      benchmark::DoNotOptimize(value);
      return static_cast<double>(*allocated_bytes() - *before) / links;
    }
  }

  std::uint64_t count() const { return count_; }
  std::uint64_t sum() const { return sum_; }
  std::uint64_t expected() const {
    return count_ * (shape_ == shape::nested ? sum_of_chain(links) : std::uint64_t{links});
  }

 private:
  void one_of(int awaits) {
    int value = shape_ == shape::nested ? chain_.nested() : chain_.sequence(awaits);
    benchmark::DoNotOptimize(value);
    sum_ += static_cast<std::uint64_t>(value);
    ++count_;
  }

  const shape shape_;
  const fault sabotage_;
  Chain chain_;
  std::uint64_t sum_ = 0;
  std::uint64_t count_ = 0;
};

template <contender_chain Chain>
void run(const parameters& cell, const harness_options& harness, report& result) {
  runs<Chain> chains(cell.shape, harness.sabotage);
  const double seconds = seconds_per_call([&] { chains.one(); }, harness);
  const auto allocations_before = all_allocations<Chain>();
  chains.one();
  const auto allocations_after = all_allocations<Chain>();
  chains.sabotaged();

  result.metric("ns_per_chain", seconds * 1e9);
  result.metric("ns_per_link", seconds * 1e9 / links);
  result.metric("frame_bytes", chains.frame_bytes());
  result.metric("peak_memory_bytes", peak_memory_bytes());
  if (allocations_after) {
    const auto count = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_link", count / links);
  }
  result.units("link", chains.count() * links);
  result.check("sum", chains.sum(), chains.expected());
}

/// The main() of a contender of this experiment.
template <contender_chain Chain>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options
      .choice("shape", cell.shape, "how the links are arranged",
              {{"nested", shape::nested}, {"sequence", shape::sequence}})
      .number("links", cell.links, "links of a chain", links, links);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Chain>(cell, harness, result);
                             });
}

}  // namespace lab::coroutine_chain
