// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/loop_options.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/error.hpp>

#include <algorithm>

namespace gyre::detail {

loop_options validate(loop_options options) {
  require_not_negative(options.batch_time, "gyre::event_loop: batch_time");
  require_not_negative(options.io_time, "gyre::event_loop: io_time");
  require_not_negative(options.heavy_time, "gyre::event_loop: heavy_time");
  require_not_negative(options.busy_poll, "gyre::event_loop: busy_poll");
  options.batch = std::max<std::size_t>(options.batch, 1);
  if (!options.on_exception) {
    options.on_exception = [](const std::exception_ptr& error) {
      terminate_with(error, "left a task of a loop");
    };
  }
  return options;
}

}  // namespace gyre::detail
