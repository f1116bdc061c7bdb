// SPDX-License-Identifier: Apache-2.0
// The event base, libevent's loop, of libevent's contenders.
#pragma once

#include <event2/event.h>

#include <memory>
#include <new>

namespace lab {

using libevent_base = std::unique_ptr<event_base, decltype(&event_base_free)>;

/// An event base with one of libevent's EVENT_BASE_FLAG_….
inline libevent_base make_libevent_base(int flag) {
  const std::unique_ptr<event_config, decltype(&event_config_free)> config(event_config_new(),
                                                                           &event_config_free);
  if (!config) throw std::bad_alloc();
  event_config_set_flag(config.get(), flag);
  libevent_base base(event_base_new_with_config(config.get()), &event_base_free);
  if (!base) throw std::bad_alloc();
  return base;
}

}  // namespace lab
