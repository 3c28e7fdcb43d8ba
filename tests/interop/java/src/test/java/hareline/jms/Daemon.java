package hareline.jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A broker that one case has for itself, so that it may kill or restart it.
 *
 * <p>The command is the system property {@code broker.command}, its words separated by tabs; port
 * and data directory are added here. Files go below {@code broker.directory}. Usage:
 *
 * <pre>{@code
 * try (Daemon daemon = Daemon.start()) {
 *   daemon.kill();      // SIGKILL: no farewell to anybody
 *   daemon.startAgain();  // the same port and the same data
 * }
 * }</pre>
 *
 * Invariants: the port is chosen by the system at the first start and kept afterwards; {@link
 * #close} leaves no process, and fails if one that was stopped ended badly or logged a traceback.
 */
public final class Daemon extends Broker implements AutoCloseable {
  private static final Pattern LISTENING =
      Pattern.compile("listening on amqp://[^\\s\"]*:(\\d+)");
  private static final Pattern READY = Pattern.compile("BRK-1004");
  private static final Pattern TRACEBACK =
      Pattern.compile("Traceback \\(most recent call last\\)|\"exc_type\"|Fatal Python error");

  private static final String CONFIG = "hareline.toml";

  private final Path directory;
  private final List<String> flags;
  private final List<Integer> ports;
  private final Thread lastResort = new Thread(this::destroy);
  private Process process;
  private int starts;

  private Daemon(Running first) {
    super("127.0.0.1", first.ports.get(0), "guest", "guest", "/");
    directory = first.directory;
    flags = first.flags;
    ports = first.ports;
    process = first.process;
    starts = 1;
    Runtime.getRuntime().addShutdownHook(lastResort);
  }

  /** Start a daemon on a port that the system chooses; further flags go to its command. */
  public static Daemon start(String... flags) throws Exception {
    assumeFalse(Broker.isForeign(), "needs a daemon of its own, and -Dbroker.command names none");
    return new Daemon(new Running(newDirectory(), Arrays.asList(flags), 0, 1));
  }

  /** Start a daemon with these settings, the text of a configuration file. */
  public static Daemon configured(String toml) throws Exception {
    assumeFalse(Broker.isForeign(), "needs a daemon of its own, and -Dbroker.command names none");
    Path directory = newDirectory();
    Path file = Files.writeString(directory.resolve(CONFIG), toml);
    return new Daemon(new Running(directory, List.of("--config", file.toString()), 0, 1));
  }

  private static Path newDirectory() throws IOException {
    Path root = Path.of(System.getProperty("broker.directory", "target"));
    return Files.createDirectories(root.resolve("daemon-" + UUID.randomUUID()));
  }

  /** The broker of the same process on the port of its n-th further listener, from 1. */
  public Broker listener(int n) {
    return new Broker(host, ports.get(n), username, password, vhost);
  }

  /** Replace the settings of {@link #configured} and have the daemon read them again: SIGHUP. */
  public void reload(String toml) throws Exception {
    Files.writeString(directory.resolve(CONFIG), toml);
    new ProcessBuilder("kill", "-HUP", Long.toString(process.pid())).start().waitFor();
  }

  /** End it as a crash would: SIGKILL. */
  public void kill() throws InterruptedException {
    process.destroyForcibly().waitFor();
  }

  /** SIGTERM, and hold it to a clean end. */
  public void stop() throws InterruptedException {
    process.destroy();
    assertTrue(process.waitFor(20, TimeUnit.SECONDS), () -> "no exit after SIGTERM\n" + log());
    assertEquals(0, process.exitValue(), () -> "exit status after SIGTERM\n" + log());
    assertFalse(TRACEBACK.matcher(log()).find(), () -> "the daemon logged a traceback\n" + log());
  }

  /** Start it again after {@link #kill} or {@link #stop}: same port, same data. */
  public void startAgain() throws Exception {
    assertFalse(process.isAlive(), "it runs already");
    starts++;
    process = new Running(directory, flags, port, starts).process;
  }

  /** Whether the log of its present life has this text, such as an event's code. */
  public boolean hasLogged(String text) {
    return log().contains(text);
  }

  /** Stop it if it runs. */
  @Override
  public void close() {
    try {
      if (process.isAlive()) {
        stop();
      }
    } catch (InterruptedException interrupted) {
      fail("interrupted while the daemon stopped", interrupted);
    } finally {
      destroy();
      Runtime.getRuntime().removeShutdownHook(lastResort);
    }
  }

  private void destroy() {
    process.destroyForcibly();
  }

  private String log() {
    return read(logOf(directory, starts));
  }

  private static File logOf(Path directory, int start) {
    return directory.resolve("broker-" + start + ".log").toFile();
  }

  private static String read(File file) {
    try {
      return new String(Files.readAllBytes(file.toPath()), StandardCharsets.UTF_8);
    } catch (IOException error) {
      return error.toString();
    }
  }

  /** One life of the process, from its start to the line that says where it listens. */
  private static final class Running {
    final Path directory;
    final List<String> flags;
    final Process process;

    /** The ports for AMQP: first the one of the flags, then those of the settings. */
    final List<Integer> ports;

    Running(Path directory, List<String> flags, int wantedPort, int start) throws Exception {
      this.directory = directory;
      this.flags = flags;
      File log = logOf(directory, start);
      List<String> command =
          new ArrayList<>(Arrays.asList(System.getProperty("broker.command").split("\t")));
      command.addAll(List.of("--bind", "127.0.0.1", "--port", Integer.toString(wantedPort)));
      command.addAll(List.of("--data-dir", directory.resolve("data").toString()));
      command.addAll(flags);
      process =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(log)
              .redirectInput(new File("/dev/null"))
              .start();
      try {
        ports = awaitReadyLine(log);
      } catch (Throwable failure) {
        process.destroyForcibly();
        throw failure;
      }
    }

    private List<Integer> awaitReadyLine(File log) throws Exception {
      Patience.until(
          20_000,
          () -> {
            if (!process.isAlive()) {
              fail("exit status " + process.exitValue() + " before the ready line\n" + read(log));
            }
            return READY.matcher(read(log)).find();
          },
          "the daemon listens");
      List<Integer> found = new ArrayList<>();
      Matcher listening = LISTENING.matcher(read(log));
      while (listening.find()) {
        found.add(Integer.valueOf(listening.group(1)));
      }
      return found;
    }
  }
}
