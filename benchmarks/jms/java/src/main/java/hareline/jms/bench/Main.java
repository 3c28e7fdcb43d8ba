package hareline.jms.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * The load generator as a program: one job a line on standard input, until that ends. It answers on
 * standard output with <code>begin PHASE</code> and <code>end PHASE COUNT NANOSECONDS</code> for
 * each phase, then <code>done</code>; or with <code>failed REASON</code>, and is ready for the next
 * job either way. Standard error is for people.
 */
public final class Main {

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever a library prints is no answer
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(answer(line, answers));
            answers.flush();
        }
        System.exit(0); // threads of the libraries would keep the program alive
    }

    private static String answer(String line, PrintStream answers) {
        try {
            Job job = new Job(line);
            Client client = job.client.equals("qpid") ? new QpidClient() : new RabbitClient();
            new Load(client, job, new Told(answers)).run();
            return "done";
        } catch (Exception error) {
            error.printStackTrace();
            return "failed " + reason(error).replaceAll("\\s+", " ");
        }
    }

    /** With what it was caused by: the libraries' own exceptions often say nothing. */
    private static String reason(Throwable error) {
        StringBuilder text = new StringBuilder(error.toString());
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            text.append("; ").append(cause);
        }
        return text.toString();
    }

    private static final class Told implements Load.Observer {

        private final PrintStream answers;

        Told(PrintStream answers) {
            this.answers = answers;
        }

        @Override
        public void begins(String phase) {
            say("begin " + phase);
        }

        @Override
        public void ends(String phase, long count, long nanos) {
            say("end " + phase + " " + count + " " + nanos);
        }

        private void say(String line) {
            answers.println(line);
            answers.flush();
        }
    }
}
