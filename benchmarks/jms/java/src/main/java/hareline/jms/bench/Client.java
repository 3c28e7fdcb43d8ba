package hareline.jms.bench;

/**
 * One JMS client library, as the load uses it. The two libraries implement two packages of one API
 * (javax.jms and jakarta.jms), so what they have in common is said here once.
 *
 * <p>Each sender and each receiver has a connection of its own; closing it closes that connection.
 */
interface Client {

    /** A connection with a session that sends to the job's queue, which is declared. */
    Sender sender(Job job, String queue) throws Exception;

    /** A connection with a session that receives from the job's queue; nothing is delivered yet. */
    Receiver receiver(Job job, String queue) throws Exception;

    /** The producing side; for one thread. */
    interface Sender extends AutoCloseable {

        void send(long number) throws Exception;

        void commit() throws Exception;

        /** Return once the broker has dealt with everything that was sent so far. */
        void settle() throws Exception;

        @Override
        void close();
    }

    /** The consuming side: either a listener or calls of receive, as the job says. */
    interface Receiver extends AutoCloseable {

        /** Deliver to a sink, in the library's own thread, until closed. */
        void listen(Sink sink) throws Exception;

        /** The next message's number, or {@link #NONE} if none comes in time. */
        long receive(long timeoutMs) throws Exception;

        void commit() throws Exception;

        @Override
        void close();
    }

    /** What a listener's messages come to. */
    interface Sink {

        /** Never throws: a library would deliver the message again. */
        void take(Numbered message);
    }

    /** A message whose number is read when it is asked for, so that whoever asks bears the cost. */
    interface Numbered {

        /** The number it was sent with, after a look at the rest of its body. */
        long number() throws Exception;
    }

    /** No message within the time. */
    long NONE = -1;
}
