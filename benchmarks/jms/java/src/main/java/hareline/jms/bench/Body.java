package hareline.jms.bench;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Bodies of one size that carry a message's number at the front, and the check that one came
 * unchanged. For one thread: the octets and the buffer are used again for each message.
 */
final class Body {

    private static final byte FILLER = 'x';
    private static final int DIGITS = 16;

    private final int size;
    private final byte[] octets;
    private final byte[] received;
    private final String tail;

    Body(int size) {
        this.size = size;
        octets = new byte[size];
        Arrays.fill(octets, FILLER);
        received = new byte[size];
        tail = "x".repeat(size - DIGITS);
    }

    byte[] octets(long number) {
        ByteBuffer.wrap(octets).putLong(number);
        return octets;
    }

    String text(long number) {
        String digits = Long.toHexString(number);
        return "0".repeat(DIGITS - digits.length()) + digits + tail;
    }

    /** Where a client is to read the octets into. */
    byte[] buffer() {
        return received;
    }

    /** The number in the buffer, of which this many octets were read. */
    long number(long length, int read) {
        if (length != size || read != size || received[size - 1] != FILLER) {
            throw new IllegalStateException(
                    "a body of " + length + " octets came where " + size + " were sent");
        }
        return ByteBuffer.wrap(received).getLong();
    }

    long number(String text) {
        if (text.length() != size || text.charAt(size - 1) != FILLER) {
            throw new IllegalStateException(
                    "a text of " + text.length() + " characters came where " + size + " were sent");
        }
        return Long.parseLong(text.substring(0, DIGITS), 16);
    }
}
