package hareline.jms.bench;

import java.util.concurrent.locks.LockSupport;

/**
 * The three phases of a job, in this order: <i>through</i> (one sender and one receiver at once),
 * <i>send</i> (nobody receives), <i>receive</i> (what the sending phase left in the queue).
 *
 * <p>Where a phase's measured stretch begins and ends is told to an observer at that moment, so
 * that it can look at what the broker's process has used. Every message must come once and in
 * order.
 */
final class Load {

    /** Told when a measured stretch begins and when it ends. */
    interface Observer {

        void begins(String phase);

        /** So many messages, sent or received, in so many nanoseconds. */
        void ends(String phase, long count, long nanos);
    }

    /** Messages between two looks at the clock where nothing is transacted. */
    private static final int STRIDE = 16;

    private static final long LOOK_NANOS = 50_000;
    private static final long STALL_NANOS = 20_000_000_000L;
    /** The receiving phase is warm after this share of the queue, or after its time. */
    private static final int WARM_SHARE = 10;

    private final Client client;
    private final Job job;
    private final Observer observer;

    Load(Client client, Job job, Observer observer) {
        this.client = client;
        this.job = job;
        this.observer = observer;
    }

    void run() throws Exception {
        through();
        receive(send());
    }

    private void through() throws Exception {
        String queue = job.queue + ".through";
        try (Client.Receiver receiver = client.receiver(job, queue);
                Client.Sender sender = client.sender(job, queue);
                Intake intake = new Intake(receiver, job)) {
            intake.start();
            long sent = sendWindowed(sender, intake, 0, job.warmNanos);
            observer.begins("through");
            long before = intake.received();
            long started = System.nanoTime();
            sent = sendWindowed(sender, intake, sent, job.measureNanos);
            ends("through", intake.received() - before, System.nanoTime() - started);
            intake.await(sent, Long.MAX_VALUE);
        }
    }

    /** Send on from a number for a time, never too far ahead; the next number. */
    private long sendWindowed(Client.Sender sender, Intake intake, long first, long nanos)
            throws Exception {
        long next = first;
        long deadline = System.nanoTime() + nanos;
        int stride = job.isTransacted ? job.batch : STRIDE;
        while (System.nanoTime() < deadline) {
            if (next - intake.received() > job.window - stride) {
                intake.check();
                LockSupport.parkNanos(LOOK_NANOS);
            } else {
                next = sendSome(sender, next, stride);
            }
        }
        return next;
    }

    private long sendSome(Client.Sender sender, long first, int count) throws Exception {
        for (long number = first; number < first + count; number++) {
            sender.send(number);
        }
        if (job.isTransacted) {
            sender.commit();
        }
        return first + count;
    }

    /** How many messages are in the queue afterwards. */
    private long send() throws Exception {
        try (Client.Sender sender = client.sender(job, job.queue)) {
            long warm = sendUnread(sender, 0, job.warmNanos);
            sender.settle();
            observer.begins("send");
            long started = System.nanoTime();
            long sent = sendUnread(sender, warm, job.measureNanos);
            sender.settle();
            ends("send", sent - warm, System.nanoTime() - started);
            return sent;
        }
    }

    private long sendUnread(Client.Sender sender, long first, long nanos) throws Exception {
        int stride = job.isTransacted ? job.batch : STRIDE;
        long next = first;
        long deadline = System.nanoTime() + nanos;
        while (System.nanoTime() < deadline && next + stride <= job.limit) {
            next = sendSome(sender, next, stride);
        }
        return next;
    }

    private void receive(long queued) throws Exception {
        try (Client.Receiver receiver = client.receiver(job, job.queue);
                Intake intake = new Intake(receiver, job)) {
            intake.start();
            intake.await(1, Long.MAX_VALUE);
            intake.await(queued / WARM_SHARE, job.warmNanos);
            observer.begins("receive");
            long before = intake.received();
            long started = System.nanoTime();
            intake.await(queued, job.measureNanos);
            ends("receive", intake.received() - before, System.nanoTime() - started);
        }
    }

    private void ends(String phase, long count, long nanos) {
        if (count == 0) {
            throw new IllegalStateException(
                    "no message in " + nanos / 1_000_000 + " ms of the phase " + phase);
        }
        observer.ends(phase, count, nanos);
    }

    /** The receiving side: takes messages, checks and commits them, and counts. */
    private static final class Intake implements AutoCloseable, Client.Sink, Runnable {

        private static final long RECEIVE_MS = 1_000;
        private static final long JOIN_MS = 30_000;

        private final Client.Receiver receiver;
        private final Job job;
        private final Thread thread = new Thread(this, "receiver");
        private long taken; // of the receiving thread
        private volatile long received;
        private volatile boolean isOver;
        private volatile Exception failure;

        Intake(Client.Receiver receiver, Job job) {
            this.receiver = receiver;
            this.job = job;
        }

        void start() throws Exception {
            if (job.isListening) {
                receiver.listen(this);
            } else {
                thread.start();
            }
        }

        /** Messages that count: each one, or with transactions those that are committed. */
        long received() {
            return received;
        }

        void check() throws Exception {
            if (failure != null) {
                throw failure;
            }
        }

        /** Return when so many were received, or when the time is over. */
        void await(long count, long nanos) throws Exception {
            long started = System.nanoTime();
            long moved = started;
            long seen = received;
            while (received < count && System.nanoTime() - started < nanos) {
                check();
                LockSupport.parkNanos(LOOK_NANOS);
                if (received != seen) {
                    seen = received;
                    moved = System.nanoTime();
                } else if (System.nanoTime() - moved > STALL_NANOS) {
                    throw new IllegalStateException(
                            received + " received of " + count + ", and no more of them");
                }
            }
            check();
        }

        @Override
        public void take(Client.Numbered message) {
            if (isOver || failure != null) {
                return; // what is still on its way when the measuring is over
            }
            try {
                took(message.number());
            } catch (Exception error) {
                failure = error;
            }
        }

        private void took(long number) throws Exception {
            if (number != taken) {
                throw new IllegalStateException(
                        "message " + number + " came where " + taken + " was due");
            }
            taken++;
            if (job.isTransacted) {
                if (taken % job.batch != 0) {
                    return;
                }
                receiver.commit();
            }
            received = taken;
        }

        @Override
        public void run() {
            try {
                while (!isOver) {
                    long number = receiver.receive(RECEIVE_MS);
                    if (number != Client.NONE) {
                        took(number);
                    }
                }
            } catch (Exception error) {
                failure = error;
            }
        }

        @Override
        public void close() {
            isOver = true;
            try {
                thread.join(JOIN_MS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
