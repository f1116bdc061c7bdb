// SPDX-License-Identifier: Apache-2.0
// live_handler: the entry of a handler in the list of live tasks, with its route and its peer.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/live_tasks.hpp>

#include <string_view>

namespace gyre::http::detail {

/// Lifetime: the texts of `method` and `route` must outlive the object.
class live_handler final : public gyre::detail::slab_object, gyre::detail::live_task_details {
 public:
  live_handler(const executor& target, std::string_view method, std::string_view route,
               const net::endpoint& peer)
      : method_(method),
        route_(route),
        peer_(peer),
        entry_(target, nullptr, std::source_location{}, this) {
    entry_.begin();
  }

 private:
  void describe(live_task& description) const override {
    description.name.append(method_).append(" ").append(route_);
    description.peer = peer_.to_string();
  }

  const std::string_view method_;
  const std::string_view route_;
  const net::endpoint peer_;
  gyre::detail::live_task_entry entry_;  // last: other threads may read the members above
};

}  // namespace gyre::http::detail
