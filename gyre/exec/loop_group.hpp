// SPDX-License-Identifier: Apache-2.0
// loop_group: the concept of a group of event loops that share one job, such as a loop_pool.
#pragma once

#include <gyre/exec/event_loop.hpp>

#include <concepts>
#include <vector>

namespace gyre {

/// Event loops that live as long as the group, such as those over which a server distributes its
/// connections.
template <class Group>
concept loop_group = requires(Group& group) {
  { group.loops() } -> std::same_as<std::vector<event_loop*>>;
};

}  // namespace gyre
