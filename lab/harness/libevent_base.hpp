// SPDX-License-Identifier: Apache-2.0
// The event base, libevent's loop, of libevent's contenders.
#pragma once

#include <event2/event.h>

#include <memory>
#include <new>

namespace lab {

using libevent_base = std::unique_ptr<event_base, decltype(&event_base_free)>;

/// Without locks, and with changes of registrations gathered until the next wait, so that one that
/// is taken back costs no system call. The latter is safe where no descriptor is duplicated.
constexpr int libevent_flags = EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST;

/// An event base with some of libevent's EVENT_BASE_FLAG_….
inline libevent_base make_libevent_base(int flags = libevent_flags) {
  const std::unique_ptr<event_config, decltype(&event_config_free)> config(event_config_new(),
                                                                           &event_config_free);
  if (!config) throw std::bad_alloc();
  event_config_set_flag(config.get(), flags);
  libevent_base base(event_base_new_with_config(config.get()), &event_base_free);
  if (!base) throw std::bad_alloc();
  return base;
}

}  // namespace lab
