// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/terminal.hpp>

#include <gyre/base/error.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/signal_mask.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/detail/system_processes.hpp>
#include <gyre/io/detail/system_terminal.hpp>

#include <fcntl.h>
#include <sys/types.h>
#include <termios.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

namespace gyre::io {
namespace {

namespace system = detail::system;

bool handles_sigttou() noexcept {
  const auto action = system::signal_action(SIGTTOU);
  return action && action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

// Sets attributes. Returns an error number, or zero. A program in the background is stopped until
// it is in the foreground. The kernel would call a handler of SIGTTOU repeatedly: after a handler
// with SA_RESTART the call does not even return. So this function sends the signal once itself.
int set_attributes_in_foreground(int fd, const ::termios& attributes) noexcept {
  const detail::signal_mask mask(SIG_UNBLOCK, SIGTTOU);
  if (system::is_in_background(fd) && handles_sigttou()) {
    system::kill(0, SIGTTOU);  // the signal stops the whole job, as the kernel's would
    if (system::is_in_background(fd)) return EINTR;
  }
  return system::set_terminal_attributes(fd, attributes);
}

::termios apply_setting(::termios attributes, terminal_setting setting) noexcept {
  switch (setting) {
    case terminal_setting::raw: ::cfmakeraw(&attributes); break;
    case terminal_setting::cbreak:
      attributes.c_lflag &= ~static_cast<::tcflag_t>(ICANON | ECHO);
      break;
    case terminal_setting::no_echo:
      attributes.c_lflag &= ~static_cast<::tcflag_t>(ECHO);
      attributes.c_lflag |= ECHONL;
      return attributes;
  }
  attributes.c_cc[VMIN] = 1;
  attributes.c_cc[VTIME] = 0;
  return attributes;
}

}  // namespace

namespace detail {

class changed_terminal : public intrusive_list_node {
 public:
  changed_terminal(int fd, terminal_setting setting)
      : fd_(system::value_or_throw(system::duplicate(fd), "gyre::io::terminal_mode")),
        old_attributes_(
            system::value_or_throw(system::terminal_attributes(fd), "gyre::io::terminal_mode")),
        setting_(setting) {
    apply();
  }
  changed_terminal& operator=(changed_terminal&&) = delete;
  ~changed_terminal() { restore(); }

  void apply();
  void restore() noexcept;

 private:
  static void restore_all() noexcept;
  void restore_attributes() noexcept;

  unique_fd fd_;
  ::termios old_attributes_;
  terminal_setting setting_;
  // The process that changed the terminal; its forked children leave it alone.
  ::pid_t owner_ = system::process_id();
};

namespace {

// The terminals that are restored at exit. The table is never destroyed, because other threads may
// still run at that time.
struct changed_terminals {
  std::mutex lock;
  intrusive_list<changed_terminal> all;  // the terminal that was changed last is first
  bool restores_at_exit = false;
};
changed_terminals& terminals() {
  static auto* const table = new changed_terminals;
  return *table;
}

}  // namespace

void changed_terminal::apply() {
  const std::lock_guard hold(terminals().lock);
  if (is_linked()) return;
  if (!terminals().restores_at_exit) terminals().restores_at_exit = std::atexit(&restore_all) == 0;
  const int error =
      set_attributes_in_foreground(fd_.get(), apply_setting(old_attributes_, setting_));
  if (error != 0) {
    gyre::detail::throw_system_error(
        error, error == EINTR ? "gyre::io::terminal_mode: in the background, and the handler "
                                "of SIGTTOU did not wait: apply() again in the foreground"
                              : "gyre::io::terminal_mode: tcsetattr");
  }
  terminals().all.push_front(*this);
}

void changed_terminal::restore() noexcept {
  const std::lock_guard hold(terminals().lock);
  if (!is_linked()) return;
  unlink();
  restore_attributes();
}

void changed_terminal::restore_attributes() noexcept {
  if (owner_ != system::process_id() || system::is_in_background(fd_.get())) return;
  const signal_mask mask(SIG_BLOCK, SIGTTOU);
  system::set_terminal_attributes(fd_.get(), old_attributes_);
}

void changed_terminal::restore_all() noexcept {
  const std::lock_guard hold(terminals().lock);
  while (changed_terminal* const terminal = terminals().all.pop_front())
    terminal->restore_attributes();
}

void delete_changed_terminal::operator()(changed_terminal* terminal) const noexcept {
  delete terminal;
}

}  // namespace detail

terminal_mode::terminal_mode(int fd, terminal_setting setting)
    : changed_terminal_(new detail::changed_terminal(fd, setting)) {}

void terminal_mode::restore() noexcept {
  if (changed_terminal_ != nullptr) changed_terminal_->restore();
}

void terminal_mode::apply() {
  if (changed_terminal_ == nullptr) {
    throw std::logic_error("gyre::io::terminal_mode: apply() of an object that was moved from");
  }
  changed_terminal_->apply();
}

bool is_terminal(int fd) noexcept { return system::check_terminal(fd) == 0; }

terminal_extent terminal_size(int fd) {
  const ::winsize size = system::value_or_throw(system::window_size(fd), "gyre::io::terminal_size");
  return {.columns = size.ws_col, .rows = size.ws_row};
}

stream open_terminal(event_loop& loop, int fd) {
  if (const int error = system::check_terminal(fd); error != 0) {
    gyre::detail::throw_system_error(error, "gyre::io::open_terminal");
  }
  if (system::is_terminal_master(fd)) {
    // A second open of the multiplexer would make another pseudo-terminal.
    gyre::detail::throw_system_error(
        EINVAL, "gyre::io::open_terminal: the master of a pseudo-terminal; make a stream of it");
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int flags = system::value_or_throw(system::flags_of(fd), "gyre::io::open_terminal");
  return stream(loop, system::value_or_throw(
                          system::open(path.c_str(), (flags & O_ACCMODE) | O_NONBLOCK | O_NOCTTY),
                          "gyre::io::open_terminal: open"));
}

}  // namespace gyre::io
