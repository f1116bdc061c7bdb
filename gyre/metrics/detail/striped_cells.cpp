// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/detail/striped_cells.hpp>

#include <gyre/base/available_parallelism.hpp>

#include <algorithm>
#include <bit>

namespace gyre::metrics::detail {
namespace {

constexpr std::size_t max_stripes = 64;

}  // namespace

[[gnu::noinline]] std::size_t thread_number() noexcept {
  static constinit std::atomic<std::size_t> next_number{0};
  // relaxed: the number orders nothing.
  static thread_local const std::size_t number =
      next_number.fetch_add(1, std::memory_order_relaxed);
  return number;
}

std::size_t stripe_count() {
  static const std::size_t count = std::bit_ceil(
      std::min(std::max<std::size_t>(gyre::detail::usable_cpus().size(), 1), max_stripes));
  return count;
}

striped_cells::striped_cells(std::size_t counts)
    : stripes_(stripe_count()),
      lines_per_stripe_((counts + line::size - 1) / line::size),
      lines_(std::make_unique<line[]>(stripes_ * lines_per_stripe_)) {}

std::uint64_t striped_cells::sum(std::size_t index) const noexcept {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < stripes_; ++i) {
    const line& line = lines_[i * lines_per_stripe_ + index / line::size];
    total += line.cells[index % line::size].load(std::memory_order_relaxed);
  }
  return total;
}

}  // namespace gyre::metrics::detail
