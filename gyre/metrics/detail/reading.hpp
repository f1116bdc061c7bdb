// SPDX-License-Identifier: Apache-2.0
// reading: the work of one executor in one collection of metrics.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/metrics/detail/collection.hpp>
#include <gyre/metrics/detail/source.hpp>
#include <gyre/metrics/detail/watched_executor.hpp>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace gyre::metrics::detail {

/// Reads the sources of one executor, on that executor. The destructor tells the collection that no
/// more comes, whether or not the reading has run.
class reading {
 public:
  reading(std::shared_ptr<collection> target, std::size_t part,
          std::shared_ptr<watched_executor> executor, std::vector<std::shared_ptr<source>> sources)
      : collection_(std::move(target)),
        part_(part),
        executor_(std::move(executor)),
        sources_(std::move(sources)),
        begin_(gyre::detail::monotonic_now()) {}
  reading(reading&& other) noexcept = default;
  reading& operator=(reading&&) = delete;
  ~reading();

  /// Counts the reading as pending in its executor, until it is destroyed.
  void count() noexcept;
  void run();

 private:
  std::shared_ptr<collection> collection_;  // null after a move
  std::size_t part_;
  std::shared_ptr<watched_executor> executor_;
  std::vector<std::shared_ptr<source>> sources_;
  steady_time begin_;
  bool is_counted_ = false;
};

}  // namespace gyre::metrics::detail
