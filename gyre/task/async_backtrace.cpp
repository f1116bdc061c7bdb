// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/async_backtrace.hpp>

#include <ostream>

namespace gyre {
namespace detail {

void append_frame(std::string& text, const std::source_location& frame, std::string_view indent) {
  text.append(indent).append("  at ").append(frame.function_name());
  text.append(" (").append(frame.file_name()).append(":");
  text.append(std::to_string(frame.line())).append(")\n");
}

}  // namespace detail

async_backtrace::async_backtrace(const task_context& context) {
  const detail::promise_base* frame = context.trace.innermost.get();
  for (const task_context* ancestor = &context; ancestor != nullptr;
       ancestor = ancestor->trace.parent.get()) {
    for (; frame != nullptr; frame = frame->trace.awaited_by.get()) {
      const bool has_begun = frame->trace.place.get().line() != 0;
      if (has_begun) frames_.push_back(frame->trace.place.get());
    }
    if (name_.empty() && ancestor->trace.name.get() != nullptr) name_ = ancestor->trace.name.get();
    frame = ancestor->trace.awaited_by.get();
  }
}

std::string async_backtrace::to_string() const {
  std::string text;
  for (const std::source_location& frame : frames_) detail::append_frame(text, frame, "");
  return text;
}

std::ostream& operator<<(std::ostream& output, const async_backtrace& trace) {
  return output << trace.to_string();
}

}  // namespace gyre
