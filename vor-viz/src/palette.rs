//! The palette, and how colours are judged: by contrast, and by how different two of them look to
//! people with each kind of colour vision.
//!
//! Colours are written in OKLCH (lightness, chroma, hue in degrees), whose steps look equal. The
//! formulas are those of Björn Ottosson's Oklab, contrast is that of WCAG 2.

use egui::Color32;

/// The colours of scopes: any two of them differ in each kind of colour vision, and a dark text is
/// readable on all of them. They come from a search over lightness, chroma and hue for the set
/// whose most similar pair differs most.
pub const SCOPES: [Color32; 12] = [
    Color32::from_rgb(210, 144, 146),
    Color32::from_rgb(196, 117, 75),
    Color32::from_rgb(247, 218, 161),
    Color32::from_rgb(164, 173, 83),
    Color32::from_rgb(195, 205, 114),
    Color32::from_rgb(152, 203, 182),
    Color32::from_rgb(165, 240, 218),
    Color32::from_rgb(40, 186, 190),
    Color32::from_rgb(128, 216, 254),
    Color32::from_rgb(86, 146, 197),
    Color32::from_rgb(145, 158, 236),
    Color32::from_rgb(166, 126, 150),
];

/// Returns the colour of a lightness and a chroma from 0 to 1 and a hue in degrees. A chroma that
/// the screen lacks is reduced.
#[must_use]
pub fn oklch(lightness: f32, chroma: f32, hue: f32) -> Color32 {
    let (sin, cos) = hue.to_radians().sin_cos();
    let mut chroma = chroma;
    loop {
        let linear = linear_of([lightness, chroma * cos, chroma * sin]);
        let is_inside = linear.iter().all(|part| (-1e-4..=1.0001).contains(part));
        if is_inside || chroma <= 0.0 {
            let [r, g, b] = linear.map(|part| part.clamp(0.0, 1.0));
            return egui::Rgba::from_rgb(r, g, b).into();
        }
        chroma -= 0.004;
    }
}

/// Converts Oklab to linear light: red, green and blue.
fn linear_of([l, a, b]: [f32; 3]) -> [f32; 3] {
    let long = (l + 0.396_337_78 * a + 0.215_803_76 * b).powi(3);
    let medium = (l - 0.105_561_346 * a - 0.063_854_17 * b).powi(3);
    let short = (l - 0.089_484_18 * a - 1.291_485_5 * b).powi(3);
    [
        4.076_741_7 * long - 3.307_711_6 * medium + 0.230_969_94 * short,
        -1.268_438 * long + 2.609_757_4 * medium - 0.341_319_4 * short,
        -0.004_196_086 * long - 0.703_418_6 * medium + 1.707_614_7 * short,
    ]
}

/// Returns the contrast of two opaque colours, from 1 to 21.
#[must_use]
pub fn contrast(one: Color32, other: Color32) -> f32 {
    let luminance = |color: Color32| {
        let [r, g, b, _] = egui::Rgba::from(color).to_array();
        0.2126 * r + 0.7152 * g + 0.0722 * b
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Returns the dark or the light text colour, whichever is easier to read on a colour. Its contrast
/// is at least 4.5.
#[must_use]
pub fn text_on(ground: Color32) -> Color32 {
    let (dark, light) = (Color32::BLACK, Color32::WHITE);
    match contrast(dark, ground) >= contrast(light, ground) {
        true => dark,
        false => light,
    }
}

/// How different colours look to people with each kind of colour vision.
pub mod vision {
    use egui::Color32;

    /// The matrix of a kind of colour vision, for linear red, green and blue.
    pub type Vision = [[f32; 3]; 3];

    /// The kinds of colour vision: usual, and without one of the three kinds of cones, as in
    /// Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
    /// Vision Deficiency" (2009).
    pub const KINDS: [(&str, Vision); 4] = [
        ("usual", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "without red cones",
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
        ),
        (
            "without green cones",
            [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
        ),
        (
            "without blue cones",
            [
                [1.255_528, -0.076_749, -0.178_779],
                [-0.078_411, 0.930_809, 0.147_602],
                [0.004_733, 0.691_367, 0.303_9],
            ],
        ),
    ];

    /// Returns how different two colours look: their distance in Oklab. From about 0.02 on, two
    /// colours side by side can be told apart.
    #[must_use]
    pub fn difference(one: Color32, other: Color32, vision: &Vision) -> f32 {
        let seen = |color: Color32| {
            let [r, g, b, _] = egui::Rgba::from(color).to_array();
            let seen = vision.map(|row| row[0] * r + row[1] * g + row[2] * b);
            lab_of(seen.map(|part| part.clamp(0.0, 1.0)))
        };
        let (one, other) = (seen(one), seen(other));
        let squares = one.iter().zip(other).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f32>().sqrt()
    }

    /// Converts linear light to Oklab.
    fn lab_of([r, g, b]: [f32; 3]) -> [f32; 3] {
        let long = (0.412_221_46 * r + 0.536_332_55 * g + 0.051_445_995 * b).cbrt();
        let medium = (0.211_903_5 * r + 0.680_699_5 * g + 0.107_396_96 * b).cbrt();
        let short = (0.088_302_46 * r + 0.281_718_85 * g + 0.629_978_7 * b).cbrt();
        [
            0.210_454_26 * long + 0.793_617_8 * medium - 0.004_072_047 * short,
            1.977_998_5 * long - 2.428_592_2 * medium + 0.450_593_7 * short,
            0.025_904_037 * long + 0.782_771_77 * medium - 0.808_675_77 * short,
        ]
    }

    /// Returns the smallest difference of two of some colours, and where it is.
    #[must_use]
    pub fn most_similar(colors: &[Color32]) -> (f32, String) {
        let mut least = (f32::INFINITY, String::new());
        for (name, vision) in &KINDS {
            for (i, &one) in colors.iter().enumerate() {
                for (j, &other) in colors.iter().enumerate().skip(i + 1) {
                    let found = difference(one, other, vision);
                    if found < least.0 {
                        least = (found, format!("{i} and {j}, {name}"));
                    }
                }
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::vision::most_similar;
    use super::*;

    #[test]
    fn a_lightness_and_a_colour_are_as_oklab_defines_them() {
        // From the table of Ottosson's page: white, and the hue of red.
        assert_eq!(oklch(1.0, 0.0, 0.0), Color32::WHITE);
        assert_eq!(oklch(0.0, 0.0, 0.0), Color32::BLACK);
        let red = oklch(0.627_96, 0.257_68, 29.234);
        let [r, g, b, _] = red.to_array();
        assert!(r >= 253 && g <= 4 && b <= 4, "{red:?}");
        // A chroma that the screen lacks.
        let [r, g, b, _] = oklch(0.9, 0.4, 264.0).to_array();
        assert!(b > r && b > g);
    }

    #[test]
    fn contrast_is_that_of_the_guidelines() {
        assert!((contrast(Color32::BLACK, Color32::WHITE) - 21.0).abs() < 1e-3);
        assert!((contrast(Color32::WHITE, Color32::WHITE) - 1.0).abs() < 1e-6);
        // #767676 is the lightest grey with 4.5 on white.
        let grey = contrast(Color32::from_gray(0x76), Color32::WHITE);
        assert!((4.5..4.6).contains(&grey), "{grey}");
    }

    #[test]
    fn text_is_readable_on_every_colour() {
        for r in (0..=255).step_by(15) {
            for g in (0..=255).step_by(15) {
                for b in (0..=255).step_by(15) {
                    let ground = Color32::from_rgb(r, g, b);
                    let found = contrast(text_on(ground), ground);
                    assert!(found >= 4.5, "{found} on {ground:?}");
                }
            }
        }
    }

    #[test]
    fn scopes_differ_in_each_kind_of_colour_vision() {
        let (found, where_it_is) = most_similar(&SCOPES);
        assert!(found >= 0.06, "{found}: {where_it_is}");
        // Without the other cones, red and green are alike.
        let alike = [
            Color32::from_rgb(200, 100, 90),
            Color32::from_rgb(140, 130, 70),
        ];
        assert!(most_similar(&alike).0 < 0.06);
        for color in SCOPES {
            assert_eq!(text_on(color), Color32::BLACK);
        }
    }
}
