// SPDX-License-Identifier: Apache-2.0
// Programs that are not the contender's own: servers in processes that end with this one.
#pragma once

#include <lab/harness/network/server_process.hpp>

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

namespace lab {

/// A program and its surroundings.
struct program_plan {
  std::vector<std::string> words;   ///< its name, which PATH finds, and its arguments
  std::vector<unsigned> cpus = {};  ///< the CPUs that it may use; empty: those of this thread
  std::string user = {};            ///< the user that it runs as; empty: the user of this process
  std::string output = {};          ///< the file that gets what it prints; empty: as this process
  int death_signal = SIGKILL;       ///< ends it when this process ends
};

/// Starts a program. It counts no allocations. Returns its number.
/// Errors: throws std::system_error. A program that cannot be executed ends with status 127.
pid_t start_program(const program_plan& plan);

/// Runs a program to its end. Returns its exit status, or -1 if a signal has ended it.
int run_program(const program_plan& plan);

/// Whether `user` is known to this system.
bool has_user(const std::string& user);

/// Makes `user` the owner of a file or folder.
/// Errors: throws std::system_error.
void give_to_user(const std::string& path, const std::string& user);

/// The CPU time and memory that a process and its children have used. The CPU time of children that
/// have ended counts too, in steps of some milliseconds. The shared memory of several processes
/// counts for each.
network::usage used_by(pid_t process);

/// A temporary folder, which is removed with all its files.
/// Thread-safety: the main thread.
class scratch_folder {
 public:
  /// Errors: throws std::system_error.
  scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder();

  const std::string& path() const { return path_; }
  /// Removes all folders of this process, which is about to end without destructors.
  static void remove_all() noexcept;

 private:
  std::string path_;
};

}  // namespace lab
