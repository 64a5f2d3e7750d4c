// Memory faults and clock ticks while a kernel runs become findings.
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "findings.h"
#include "memory.h"

namespace cuda_host {

constexpr int watched[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM};
constexpr int watched_count = sizeof watched / sizeof *watched;
constexpr int tick_ms = 50;

namespace {
struct Watch {
  struct sigaction before[watched_count];
  stack_t stack_before;
  pid_t system_thread;
  long switches_seen;
  uint32_t still_ms, stall_ms, spent_ms, limit_ms;
  volatile sig_atomic_t in_own_work, tick_pending;
} watch;
char signal_stack[1 << 16];
}  // namespace

[[noreturn]] static void fail_in_signal(const char* kind, void* context, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const uintptr_t pc = uintptr_t(machine.gregs[REG_RIP]), frame = uintptr_t(machine.gregs[REG_RBP]);
#elif defined(__aarch64__)
  const uintptr_t pc = uintptr_t(machine.pc), frame = uintptr_t(machine.regs[29]);
#endif
  record_stack(*running(), pc + 1, frame);  // readers of the stack take one off, to be inside of the call
  end_launch(kind, {}, format, arguments);
}

[[noreturn]] static void fail_by_clock(void* context) {
  watch.tick_pending = 0;
  const bool stalled = watch.still_ms >= watch.stall_ms;
  const char* text = stalled ? "ran for %.1f s of processor time without giving another thread a turn: it polls memory"
                               " by plain loads, or loops for ever"
                             : "the launch took more than %.1f s of processor time";
  const double seconds = (stalled ? watch.stall_ms : watch.limit_ms) / 1000.0;
  if (context) fail_in_signal("deadlock", context, text, seconds);
  fail("deadlock", {}, text, seconds);
}

static void on_signal(int number, siginfo_t* info, void* context) {
  if (number == SIGVTALRM) {
    watch.spent_ms += tick_ms;
    watch.still_ms = launch.switches == watch.switches_seen ? watch.still_ms + tick_ms : 0;
    watch.switches_seen = launch.switches;
    if (!running() || (watch.still_ms < watch.stall_ms && watch.spent_ms < watch.limit_ms)) return;
    watch.tick_pending = 1;
    if (!watch.in_own_work) fail_by_clock(context);
    return;
  }
  if (!running() || syscall(SYS_gettid) != watch.system_thread) {  // not a kernel's fault: as if we were not here
    for (int i = 0; i < watched_count; i++)
      if (watched[i] == number) sigaction(number, &watch.before[i], nullptr);
    return;
  }
  char* address = static_cast<char*>(info->si_addr);
  if (number == SIGFPE) fail_in_signal("undefined-behaviour", context, "an integer is divided by zero");
  if (number == SIGILL) fail_in_signal("undefined-behaviour", context, "runs into code that can not be reached");
  const char* stack = running()->stack;
  if (address >= stack - 4096 && address < stack + 4096)
    fail_in_signal("stack-overflow", context, "more than %zu bytes of local variables", stack_bytes);
  const Fault fault = explain_fault(address);
  fail_in_signal(fault.kind, context, "%s", fault.text);
}

SignalsOfLaunch::SignalsOfLaunch(uint32_t stall_ms, uint32_t limit_ms) {
  watch = {};
  watch.stall_ms = stall_ms;
  watch.limit_ms = limit_ms;
  watch.system_thread = pid_t(syscall(SYS_gettid));
  stack_t stack{};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof signal_stack;
  sigaltstack(&stack, &watch.stack_before);
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  for (int i = 0; i < watched_count; i++) sigaction(watched[i], &action, &watch.before[i]);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGVTALRM;
  event._sigev_un._tid = watch.system_thread;
  timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_);
  const timespec tick{0, tick_ms * 1000000L};
  const itimerspec every{tick, tick};
  timer_settime(timer_, 0, &every, nullptr);
}

SignalsOfLaunch::~SignalsOfLaunch() {
  timer_delete(timer_);
  for (int i = 0; i < watched_count; i++) sigaction(watched[i], &watch.before[i], nullptr);
  sigaltstack(&watch.stack_before, nullptr);
}

OwnWork::OwnWork() { watch.in_own_work = 1; }
OwnWork::~OwnWork() noexcept(false) {
  watch.in_own_work = 0;
  if (watch.tick_pending) fail_by_clock(nullptr);
}

}  // namespace cuda_host
